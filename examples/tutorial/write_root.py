"""Code that wants to leave something behind in the host's /root. Inside nothing can be written there."""

try:
    with open("/root/.stockade-was-here", "w", encoding="utf-8") as file:
        file.write("persistence\n")
    print("wrote it")
except OSError as error:
    print("refused:", error.strerror)

"""Code that wants the host's password hashes. Inside there is no such file."""

try:
    with open("/etc/shadow", encoding="utf-8") as shadow:
        print("read it:", shadow.readline())
except OSError as error:
    print("refused:", error.strerror)

"""Runs `stockade init` on a terminal, and answers each question when it has been asked."""

import os
import pty
import sys

binary, *answers = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(binary, ["stockade", "init"])
seen = ""
for number, answer in enumerate(answers, 1):
    while f"{number}. " not in seen:
        seen += os.read(terminal, 4096).decode()
    os.write(terminal, answer.encode() + b"\n")
while True:
    try:
        more = os.read(terminal, 4096)
    except OSError:  # Linux reports the end of a terminal so.
        break
    if not more:
        break
    seen += more.decode()
print(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

"""A tool for tests that returns a value, hangs, crashes, floods or fails on request."""

import json
import os
import signal
import subprocess
import sys
import time

arguments = json.load(sys.stdin)
what, value = arguments["what"], arguments.get("value")
if what == "return":
    print(json.dumps(value))
elif what == "print":
    print(value)
elif what == "hang":
    child = subprocess.Popen(["sleep", "1000"])
    with open("pids.new", "w") as file:
        print(os.getpid(), child.pid, file=file)
    os.rename("pids.new", "pids")
    time.sleep(1000)
elif what == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
elif what == "flood":
    while True:
        sys.stdout.write("x" * 65536)
elif what == "flood errors":
    sys.stderr.write("x" * 50_000_000 + "\nthat was much\n")
    sys.exit(1)
elif what == "fail":
    sys.exit(value)
elif what == "nest":
    print("[" * value + "]" * value)
elif what == "environment":
    print(json.dumps(sorted(os.environ)))
elif what == "descriptors":
    print(json.dumps([int(name) for name in os.listdir("/proc/self/fd")]))
elif what == "remove":
    os.remove(value)
    print("null")

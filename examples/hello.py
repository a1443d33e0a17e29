"""The first thing to run: prints a greeting, and what the sandbox looks like from inside."""

import os
import platform

print(f"Hello from inside the stockade, Python {platform.python_version()}!")
print(f"I am process {os.getpid()} of user {os.getuid()}, in {os.getcwd()}.")

# Uses a secret, and then looks for its value in the environment, memory, descriptors and files of
# every process inside. The value is on the command line in two halves only.
import os
import re
import resource
import subprocess
import sys
import urllib.request

first, last = sys.argv[1].encode(), sys.argv[2].encode()
request = urllib.request.Request("https://files.test/echo")
request.add_header("Authorization", "Bearer " + os.environ["API_KEY"])
with urllib.request.urlopen(request, timeout=10) as response:
    answer = response.read()
    print("asked:", response.status)

# A process that has a planted value, so that a search that finds nothing proves something.
planted = b"planted-" + os.urandom(8).hex().encode()
child = subprocess.Popen(
    [sys.executable, "-c", "import sys; held = sys.stdin.readline(); print('ready', flush=True); sys.stdin.read()"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
)
child.stdin.write(planted + b"\n")
child.stdin.flush()
child.stdout.readline()
with open("/tmp/planted", "wb") as file:
    file.write(planted)

# A process that has asked too dies with a core dump, where the sandbox lets it have one.
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
crash = f"""
import os, resource, urllib.request
resource.setrlimit(resource.RLIMIT_CORE, ({hard}, {hard}))
request = urllib.request.Request("https://files.test/echo")
request.add_header("Authorization", "Bearer " + os.environ["API_KEY"])
answer = urllib.request.urlopen(request, timeout=10).read()
os.abort()
"""
crashed = subprocess.run([sys.executable, "-c", crash], cwd="/tmp", stderr=subprocess.DEVNULL)
print("crashed:", crashed.returncode)


def pieces():
    yield "answer", answer
    for number in sorted(name for name in os.listdir("/proc") if name.isdigit()):
        for name in ["environ", "cmdline", "auxv", "status", "mountinfo", "comm"]:
            try:
                yield f"{name} of {number}", open(f"/proc/{number}/{name}", "rb").read()
            except OSError:
                pass
        try:
            maps = open(f"/proc/{number}/maps").read().splitlines()
            memory = open(f"/proc/{number}/mem", "rb", 0)
        except OSError:
            continue
        for line in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if not found or "[v" in line:
                continue
            start, end = (int(part, 16) for part in found.groups())
            if end - start > 256 << 20:
                continue
            try:
                memory.seek(start)
                yield f"memory of {number}", memory.read(end - start)
            except (OSError, ValueError, OverflowError):
                pass
    for top in ["/tmp", "/workspace", "/etc", "/run", "/var", "/dev/shm"]:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    try:
                        yield path, open(path, "rb").read()
                    except OSError:
                        pass


def has(held, one, two):
    """Whether the parts are next to each other, without ever joining them here."""
    at = held.find(one)
    while at >= 0:
        if held.startswith(two, at + len(one)):
            return True
        at = held.find(one, at + 1)
    return False


planted_halves = planted[:9], planted[9:]
del planted
controls, found = set(), set()
for where, held in pieces():
    if has(held, *planted_halves):
        controls.add(where)
    if has(held, first, last):
        found.add(where)
is_proven = {"/tmp/planted", f"memory of {child.pid}"} <= controls
print("control:", "found" if is_proven else f"missing, only {sorted(controls)}")
print("value:", ", ".join(sorted(found)) or "not found")

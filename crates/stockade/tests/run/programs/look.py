"""Looks for everything that plant.py plants and prints a sorted list of what it finds."""

import ctypes
import glob
import json
import os
import pathlib
import socket
import sys
import zlib

names = json.loads(bytes.fromhex(sys.argv[1]))
token, directory, port = names["token"], names["directory"], names["port"]
libc = ctypes.CDLL(None, use_errno=True)
found = set()


def holds(pattern, *tokens):
    """Whether a file that the pattern names holds one of the tokens."""
    for path in glob.glob(pattern):
        try:
            content = pathlib.Path(path).read_bytes()
        except OSError:
            continue
        if any(one.encode() in content for one in tokens):
            return True
    return False


def connects(family, address):
    """Whether a process listens at the address."""
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except PermissionError:
        return False
    with probe:
        probe.settimeout(5)
        return probe.connect_ex(address) == 0


def is_bound(address):
    """Whether the port of a datagram socket is taken."""
    try:
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    except PermissionError:
        return False
    with probe:
        try:
            probe.bind(address)
        except OSError:
            return True
    return False


key = zlib.crc32(token.encode()) & 0x7FFFFFFF
sights = {
    "abstract socket": connects(socket.AF_UNIX, "\0" + token)
    or holds("/proc/net/unix", token),
    "environment": token in os.environ.values() or holds("/proc/*/environ", token),
    "file": holds(f"{directory}/{token}.txt", token),
    "process": holds("/proc/[0-9]*/comm", token[:15]) or holds("/proc/[0-9]*/cmdline", token),
    "shared memory": holds(f"/dev/shm/{token}", token),
    "socket": connects(socket.AF_UNIX, f"{directory}/{token}.sock"),
    "system v shared memory": libc.shmget(key, 0, 0) >= 0
    or holds("/proc/sysvipc/shm", f" {key} "),
    "tcp": connects(socket.AF_INET, ("127.0.0.1", port)),
    "udp": is_bound(("127.0.0.1", port)),
}
print(json.dumps(sorted(name for name, seen in sights.items() if seen)))

"""Plants secrets that a neighbour might find, prints "ready", keeps them until its input ends."""

import ctypes
import errno
import json
import os
import pathlib
import socket
import sys
import zlib

names = json.loads(bytes.fromhex(sys.argv[1]))
token, directory, port = names["token"], pathlib.Path(names["directory"]), names["port"]
libc = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_RMID, PR_SET_NAME = 0o1000, 0, 15


def listener(family, address, kind=socket.SOCK_STREAM):
    bound = socket.socket(family, kind)
    if family == socket.AF_INET:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(address)
    if kind == socket.SOCK_STREAM:
        bound.listen(8)
    return bound


os.umask(0)
file = directory / f"{token}.txt"
file.write_text(token)
shared = pathlib.Path("/dev/shm") / token
shared.write_text(token)
path = directory / f"{token}.sock"
kept = [
    listener(socket.AF_UNIX, str(path)),
    listener(socket.AF_UNIX, "\0" + token),
    listener(socket.AF_INET, ("127.0.0.1", port)),
    listener(socket.AF_INET, ("127.0.0.1", port), socket.SOCK_DGRAM),
]
key = zlib.crc32(token.encode()) & 0x7FFFFFFF
segment = libc.shmget(key, 4096, IPC_CREAT | 0o666)
# The wall makes no such objects where no cgroup counts their memory.
if segment < 0 and ctypes.get_errno() != errno.ENOSPC:
    sys.exit(os.strerror(ctypes.get_errno()))
libc.prctl(PR_SET_NAME, token[:15].encode(), 0, 0, 0)
print("ready", flush=True)
sys.stdin.read()
if segment >= 0:
    libc.shmctl(segment, IPC_RMID, None)
for planted in (file, shared, path):
    planted.unlink()

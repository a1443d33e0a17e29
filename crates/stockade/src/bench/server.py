"""Answers GET /bytes/N over TLS with N bytes, on connections that stay open.

Called with the files of a certificate and its key. Prints its port, and exits when its input ends.
"""

import os
import socket
import ssl
import sys
import threading

ADDRESS = "127.0.0.2"
BLOCK = memoryview(bytes(1 << 20))


def answer(stream, length):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length
    first = BLOCK[: min(length, 1024)]
    stream.sendall(head + first)
    left = length - len(first)
    while left:
        left -= stream.send(BLOCK[: min(left, len(BLOCK))])


def serve(connection, context):
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(connection, server_side=True) as stream:
            lines = stream.makefile("rb")
            while request := lines.readline(1024):
                path = request.split()[1]
                fields = [field.strip().lower() for field in iter(lines.readline, b"\r\n")]
                answer(stream, int(path.rsplit(b"/", 1)[1].split(b"?")[0]))
                if b"connection: close" in fields:
                    stream.unwrap()
                    return
    except (OSError, ValueError, IndexError):
        return  # The client reports the failure.


def accept(listener, context):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, context), daemon=True).start()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
listener = socket.create_server((ADDRESS, 0), backlog=128)
print(listener.getsockname()[1], flush=True)
threading.Thread(target=accept, args=(listener, context), daemon=True).start()
sys.stdin.buffer.read()
os._exit(0)

# Sends a long and a short message over WebSocket, by name or through the proxy.
import base64, os, socket, ssl, sys, urllib.parse

way, url = sys.argv[1:]
parts = urllib.parse.urlsplit(url)
host, secure = parts.hostname, parts.scheme == 'wss'
port = 443 if secure else 80
if way == 'name':
    stream = socket.create_connection((host, port), 10)
else:
    proxy = urllib.parse.urlsplit(os.environ['HTTPS_PROXY'])
    stream = socket.create_connection((proxy.hostname, proxy.port), 10)
    stream.sendall(f'CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n'.encode())
    head = b''
    while not head.endswith(b'\r\n\r\n'):
        head += stream.recv(1)
    assert b' 200 ' in head, head
if secure:
    stream = ssl.create_default_context().wrap_socket(stream, server_hostname=host)
key = base64.b64encode(os.urandom(16)).decode()
stream.sendall((f'GET {parts.path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n'
                f'Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n'
                f'Sec-WebSocket-Key: {key}\r\n\r\n').encode())
talk = stream.makefile('rwb')
line = talk.readline()
assert b' 101 ' in line, line
while talk.readline() != b'\r\n':
    pass

def say(code, text):
    mask = os.urandom(4)
    length = bytes([0x80 | 127]) + len(text).to_bytes(8, 'big')
    hidden = bytes(byte ^ mask[index % 4] for index, byte in enumerate(text))
    talk.write(bytes([0x80 | code]) + length + mask + hidden)
    talk.flush()

def hear():
    _, length = talk.read(2)
    if length == 126:
        length = int.from_bytes(talk.read(2), 'big')
    elif length == 127:
        length = int.from_bytes(talk.read(8), 'big')
    return talk.read(length)

say(1, b'hello')
said = hear().decode()
say(2, bytes(70000))
print(said, len(hear()))

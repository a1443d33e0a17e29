# Opens TLS to an allowed host with an unusual ClientHello and prints the result.
# Arguments: name or proxy, host to connect to, server name to send, shape of the ClientHello.
import os, socket, ssl, sys, urllib.parse

way, host, name, shape = sys.argv[1:]
if way == 'name':
    stream = socket.create_connection((host, 443), 5)
else:
    proxy = urllib.parse.urlsplit(os.environ['HTTPS_PROXY'])
    stream = socket.create_connection((proxy.hostname, proxy.port), 5)
    stream.sendall(f'CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n'.encode())
    head = b''
    while not head.endswith(b'\r\n\r\n'):
        piece = stream.recv(1)
        assert piece, head
        head += piece
    assert b' 200 ' in head, head
stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
talk = context.wrap_bio(incoming, outgoing, server_hostname=None if name == '-' else name)
try:
    talk.do_handshake()
except ssl.SSLWantReadError:
    pass
hello = outgoing.read()
if shape == 'records':
    # The same message in records of a few bytes each.
    body = hello[5:]
    pieces = [body[at:at + 7] for at in range(0, len(body), 7)]
    stream.sendall(b''.join(hello[:3] + len(piece).to_bytes(2, 'big') + piece for piece in pieces))
elif shape == 'bytes':
    for at in range(len(hello)):
        stream.sendall(hello[at:at + 1])
elif shape == 'old':
    # The version of a TLS 1.0 client, without extensions.
    body = bytes.fromhex('0301') + bytes(32) + b'\x00' + bytes.fromhex('0002002f') + b'\x01\x00'
    message = b'\x01' + len(body).to_bytes(3, 'big') + body
    stream.sendall(bytes.fromhex('160301') + len(message).to_bytes(2, 'big') + message)
elif shape == 'ssh':
    stream.sendall(b'SSH-2.0-client\r\n')
elif shape == 'http':
    stream.sendall(f'GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n'.encode())
else:
    stream.sendall(hello)

def alert(data):
    return len(data) >= 7 and data[0] == 21

try:
    first = stream.recv(65536)
except OSError as error:
    print('closed', error.strerror)
    sys.exit()
if not first:
    print('closed')
elif alert(first):
    print('alert', first[6])
elif shape in ('old', 'ssh', 'http'):
    print('answered', first[:12])
else:
    incoming.write(first)
    while True:
        try:
            talk.do_handshake()
            break
        except ssl.SSLWantReadError:
            stream.sendall(outgoing.read())
            incoming.write(stream.recv(65536))
    stream.sendall(outgoing.read())
    talk.write(f'GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n'.encode())
    stream.sendall(outgoing.read())
    body = b''
    while b'\n' not in body.partition(b'\r\n\r\n')[2]:
        try:
            body += talk.read()
        except ssl.SSLWantReadError:
            incoming.write(stream.recv(65536))
    print('reached', body.partition(b'\r\n\r\n')[2].decode().strip())

# Tries to reach an address with one kind of socket. Exits with 0 if the kernel accepted the data.
import socket, struct, sys

kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])

def checksum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff

def echo():
    request = struct.pack('!BBHHH', 8, 0, 0, 7, 1) + b'stockade'
    return request[:2] + struct.pack('!H', checksum(request)) + request[4:]

try:
    if kind == 'tcp':
        socket.create_connection((address, port), 3).sendall(b'hello\n')
    elif kind == 'udp':
        family, _, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        sender = socket.socket(family, socket.SOCK_DGRAM)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.sendto(b'hello', target)
    elif kind == 'raw':
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).sendto(echo(), (address, 0))
    elif kind == 'ping':
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).sendto(echo(), (address, 0))
    elif kind == 'packet':
        device = [name for _, name in socket.if_nameindex()][-1]
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        wire.bind((device, 0x0800))
        frame = bytes.fromhex('020000007701') + bytes.fromhex('020000007702') + b'\x08\x00'
        header = struct.pack('!BBHHHBBH', 0x45, 0, 36, 0, 0, 64, 1, 0)
        ends = socket.inet_aton('192.168.77.2') + socket.inet_aton(address)
        header = header[:10] + struct.pack('!H', checksum(header + ends)) + ends
        wire.send(frame + header + echo())
except OSError as error:
    print(error)
    sys.exit(1)
print('sent')

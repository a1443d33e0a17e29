import json, os, socket

def exchange(*pieces, most=1, half=False):
    """Sends bytes on a new connection and returns up to `most` responses; `half` half-closes it."""
    talk = socket.socket(socket.AF_UNIX)
    talk.settimeout(60)
    talk.connect(os.environ["STOCKADE_TOOLS_SOCKET"])
    for piece in pieces:
        try:
            talk.sendall(piece)
        except OSError:
            break
    if half:
        talk.shutdown(socket.SHUT_WR)
    heard = talk.makefile("rb")
    return [json.loads(line) for _, line in zip(range(most), heard)]

def request(arguments, id=1, tool="do"):
    """A request with arbitrary bytes as arguments."""
    return b'{"id":%d,"call":"%s","arguments":%s}\n' % (id, tool.encode(), arguments)

GOOD = request(b'{"what":"return","value":"good"}')
def goes_on():
    assert exchange(GOOD) == [{"id": 1, "result": "good"}], exchange(GOOD)

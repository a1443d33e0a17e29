# Sends bytes to the proxy, each list entry on its own connection, and prints the responses.
# An entry is [base64 of the bytes, number of responses to wait for].
import base64, json, os, re, socket, sys, urllib.parse

proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])

def whole(answer):
    """The number of complete HTTP responses."""
    count = 0
    while (end := answer.find(b'\r\n\r\n')) >= 0:
        length = re.search(rb'(?im)^content-length: *(\d+)', answer[:end])
        end += 4 + (int(length[1]) if length else 0)
        if end > len(answer):
            break
        answer = answer[end:]
        count += 1
    return count

answers = []
for said, wanted in json.loads(sys.stdin.read() if sys.argv[1] == '-' else sys.argv[1]):
    talk = socket.create_connection((proxy.hostname, proxy.port), 5)
    answer = b''
    try:
        talk.sendall(base64.b64decode(said))
        talk.settimeout(4)
        while whole(answer) < wanted:
            piece = talk.recv(65536)
            if not piece:
                break
            answer += piece
    except TimeoutError:
        answer += b'<nothing more came>'
    except OSError as error:
        answer += f'<{error.strerror}>'.encode()
    answers.append(base64.b64encode(answer).decode())
    talk.close()
print(json.dumps(answers))

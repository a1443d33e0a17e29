"""An API that accepts only the real key. Prints its port, then one line for each request."""

import http.server
import json
import os
import ssl
import sys
import threading

EXPECTED = "Bearer " + os.environ["DEMO_API_KEY"]


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        sent = self.headers.get("Authorization", "")
        is_real = sent == EXPECTED
        body = {"message": "hello" if is_real else "who are you?", "you_sent": sent}
        body = json.dumps(body).encode()
        self.send_response(200 if is_real else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        host = self.connection.getsockname()[0]
        print(host, self.command, self.path, "real key" if is_real else "no real key", flush=True)

    def log_message(self, *_):
        pass


def serve(host, port):
    server = http.server.ThreadingHTTPServer((host, port), Api)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


port = serve("127.0.0.1", 0)
serve("127.0.0.2", port)
print(port, flush=True)
sys.stdin.read()

"""Streamable HTTP in front of an MCP server on standard input and output, for a test client that
speaks only HTTP. Prints its port.

A request of a session goes to a server of that session, every other request to one that all share:
revision 2026-07-28 has no sessions. HTTP's own rules, such as those for headers, are not what is
tested, so only what the clients need is here.
"""

import json
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMAND = sys.argv[1:]


class Server:
    """One server process."""

    def __init__(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, text=True)
        self.lock = threading.Lock()
        self.waiting = {}
        self.number = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            with self.lock:
                found = self.waiting.pop(message.get("id"), None)
            if found:
                identity, box, event = found
                box.append({**message, "id": identity})
                event.set()

    def send(self, message):
        with self.lock:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def ask(self, message):
        """The answer; ids of different clients are told apart."""
        box, event = [], threading.Event()
        with self.lock:
            self.number += 1
            number = self.number
            self.waiting[number] = (message["id"], box, event)
        self.send({**message, "id": number})
        return box[0] if event.wait(20) else None

    def end(self):
        self.process.stdin.close()
        self.process.wait()


SHARED = Server()
SESSIONS = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=None, headers=()):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id")
        headers = []
        if message.get("method") == "initialize":
            session = uuid.uuid4().hex
            SESSIONS[session] = Server()
            headers = [("Mcp-Session-Id", session)]
        server = SESSIONS.get(session) if session else SHARED
        if server is None:
            return self.answer(404)
        if "id" not in message:
            server.send(message)
            return self.answer(202)
        found = server.ask(message)
        if found is None:
            return self.answer(504)
        # Of the HTTP transport: these errors have a status of their own.
        statuses = {-32601: 404, -32020: 400, -32021: 400, -32022: 400, -32602: 400}
        code = found.get("error", {}).get("code")
        self.answer(200 if session else statuses.get(code, 200), found, headers)

    def do_DELETE(self):
        server = SESSIONS.pop(self.headers.get("Mcp-Session-Id"), None)
        if server:
            server.end()
        self.answer(200 if server else 404)

    def do_GET(self):
        self.answer(405)

    def log_message(self, *_):
        pass


http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(http.server_address[1], flush=True)
threading.Thread(target=http.serve_forever, daemon=True).start()
# The tests close our input in the end.
sys.stdin.read()
for server in [SHARED, *SESSIONS.values()]:
    server.end()

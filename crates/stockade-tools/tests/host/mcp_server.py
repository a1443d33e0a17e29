"""A small MCP server over standard input and output, written by hand for the tests.

Its command line and the arguments of its tools control everything else.
"""

import json
import os
import subprocess
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
LOCK = threading.Lock()


def send(message):
    line = json.dumps(message)
    with LOCK:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


TOOLS = [
    {
        "name": "add",
        "description": "Adds two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"sum": {"type": "integer"}},
            "required": ["sum"],
        },
    },
    {
        "name": "do",
        "title": "Does what its arguments ask.",
        "inputSchema": {
            "type": "object",
            "properties": {"what": {"type": "string"}, "n": {"type": "integer"}},
        },
    },
]


def call(name, arguments):
    if name == "add":
        total = arguments["a"] + arguments["b"]
        if total == 13:
            total = "unlucky"
        return {"content": [{"type": "text", "text": "ignored"}], "structuredContent": {"sum": total}}
    what, n = arguments.get("what"), arguments.get("n", 0)
    if what == "say":
        return text("plain words")
    if what == "json":
        return text('{"deep": [1, 2]}')
    if what == "many":
        return {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "2"},
                            {"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if what == "nothing":
        return {"content": []}
    if what == "fail":
        return text("no such paper", isError=True)
    if what == "hang":
        time.sleep(1000)
    if what == "sleep":
        time.sleep(n / 1000)
        return text(str(n))
    if what == "die":
        sys.stderr.write("dying now\n")
        os._exit(3)
    if what == "long":
        return text("x" * n)
    if what == "endless":
        with LOCK:
            while True:
                sys.stdout.write("x" * 65536)
    if what == "nan":
        with LOCK:
            sys.stdout.write('{"result": {"content": NaN}, "id": %d, "jsonrpc": "2.0"}\n' % arguments["_id"])
            sys.stdout.flush()
        time.sleep(1000)
    if what == "noise":
        with LOCK:
            sys.stdout.write("starting up, please wait\n")
            for i in range(2000):
                sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/message",
                                             "params": {"level": "info", "data": i}}) + "\n")
                sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": i, "method": "sampling/createMessage",
                                             "params": {}}) + "\n")
        return text("after the noise")
    if what == "environment":
        return text(json.dumps(sorted(os.environ)))
    if what == "child":
        child = subprocess.Popen(["sleep", "1000"])
        return text(json.dumps([os.getpid(), child.pid]))
    if what == "deep":
        return text("[" * n + "]" * n)
    if what == "deep_structure":
        with LOCK:
            sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {"content": [], "structuredContent": %s}}\n'
                             % (arguments["_id"], "[" * n + "]" * n))
            sys.stdout.flush()
        return None
    raise ValueError("unknown tool " + str(what))


def answer(message):
    if message["method"] == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"},
        }
    if message["method"] == "tools/list":
        # Two pages.
        if message.get("params", {}).get("cursor") == "second":
            return {"tools": TOOLS[1:]}
        return {"tools": TOOLS[:1], "nextCursor": "second"}
    if message["method"] == "tools/call":
        params = message["params"]
        return call(params["name"], dict(params.get("arguments") or {}, _id=message["id"]))
    raise ValueError("unknown method")


def handle(message):
    try:
        result = answer(message)
        if result is None:
            return
    except Exception as error:
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": str(error)}})
        return
    send({"jsonrpc": "2.0", "id": message["id"], "result": result})


if MODE == "dies":
    sys.exit("no configuration found")
if MODE == "mute":
    time.sleep(1000)
if MODE == "chatter":
    print("hello, I am not MCP")
    sys.exit(0)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        threading.Thread(target=handle, args=(message,), daemon=True).start()

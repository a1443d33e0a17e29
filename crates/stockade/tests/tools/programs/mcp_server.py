"""A small MCP server over standard input and output. Its first argument selects how it misbehaves."""

import json
import os
import signal
import subprocess
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
NUMBER = {"type": "integer", "description": "A whole number."}
TOOLS = [
    {
        "name": "add",
        "description": "Adds two numbers.",
        "inputSchema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
        "outputSchema": {"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]},
    },
    {
        "name": "get-environment",
        "description": "Tells what the server was given.",
        "inputSchema": {"type": "object", "properties": {}},
    },
    {"name": "die", "description": "Ends the server.", "inputSchema": {"type": "object"}},
]


def call(name, arguments):
    if name == "add":
        total = arguments["a"] + arguments["b"]
        total = "unlucky" if total == 13 else total
        return {"content": [], "structuredContent": {"sum": total}}
    if name == "die":
        sys.stderr.write("I was told to\n")
        os._exit(3)
    return {"content": [{"type": "text", "text": json.dumps(sorted(os.environ))}]}


def answer(message):
    if message["method"] == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"},
        }
    if message["method"] == "tools/list":
        return {"tools": TOOLS}
    return call(message["params"]["name"], message["params"].get("arguments") or {})


processes = [os.getpid()]
if MODE in ("stays", "hesitates"):
    processes.append(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL).pid)
with open("server.new", "w") as file:
    print(*processes, file=file)
os.rename("server.new", "server")
if MODE == "hesitates":
    time.sleep(1000)
if MODE == "dies":
    sys.exit("no configuration was found")
if MODE == "mumbles":
    print("hello, this is no MCP", flush=True)
    sys.exit(0)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
if MODE == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)

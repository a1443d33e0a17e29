#!/usr/bin/env bash
# A context: code that keeps its variables between calls, and a server in it that this host reaches.
# STOCKADE names the command, by default `stockade` of the PATH.
set -euo pipefail
stockade=${STOCKADE:-stockade}

session=$("$stockade" create --timeout 30s)
place=$(mktemp -d)
trap '"$stockade" rm -f "$session" > /dev/null 2>&1 || true; rm -r "$place"' EXIT

run() { "$stockade" code "$session" --context main "$@" -; }

run <<< 'words = "the quick brown fox".split()'
run <<< 'words.append("jumps"); len(words)'

# An exception ends the call; the variables stay.
run <<< 'words[9]' 2> "$place/traceback" || echo "the call ended with $?"
tail -n 1 "$place/traceback"
run <<< 'words[-1].upper()'

# What code shows comes back in every form that it has.
run --results "$place/shown" <<< 'display({"text/html": "<b>bold</b>"}, raw=True)' > /dev/null
cat "$place/shown/1.html" && echo

# A server in the context, reached from this host through a port that only its owner can open.
run <<'PY'
import socket, threading
server = socket.create_server(("127.0.0.1", 8000))
def serve():
    while True:
        client, _ = server.accept()
        client.sendall(f"{len(words)} words\n".encode())
        client.close()
threading.Thread(target=serve, daemon=True).start()
PY
address=$("$stockade" port "$session" 8000)
exec 3<> "/dev/tcp/${address%:*}/${address#*:}"
cat <&3

"$stockade" context restart "$session" main > /dev/null
run <<< '"words" in globals()'
"$stockade" rm "$session" > /dev/null
echo "nothing is left"

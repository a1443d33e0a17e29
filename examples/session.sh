#!/usr/bin/env bash
# One session: files, code, a server in the background, a timeout, and the end.
# STOCKADE names the command, by default `stockade` of the PATH.
set -euo pipefail
stockade=${STOCKADE:-stockade}

session=$("$stockade" create --timeout 30s)
place=$(mktemp -d)
trap '"$stockade" rm -f "$session" > /dev/null 2>&1 || true; rm -r "$place"' EXIT
echo "created a session"

# Programs share the files of their session.
"$stockade" exec "$session" -- sh -c 'mkdir site && echo "hello from inside" > site/index.html'
"$stockade" code "$session" --language python - <<'PY'
with open("site/index.html") as page:
    print("python reads:", page.read().strip())
PY

# A server in the background, and a client.
server=$("$stockade" exec -d -w /workspace/site "$session" -- python3 -m http.server 8000 --bind 127.0.0.1)
"$stockade" code "$session" --language python - <<'PY'
import time, urllib.request
for _ in range(100):
    try:
        print("server answers:", urllib.request.urlopen("http://127.0.0.1:8000/").read().decode().strip())
        break
    except OSError:
        time.sleep(0.1)
else:
    raise SystemExit("the server does not answer")
PY
"$stockade" kill "$session" "$server" > /dev/null

# A tree goes in, changes, and comes out.
mkdir -p "$place/data/deep"
echo "from the host" > "$place/data/deep/note"
"$stockade" cp "$place/data" "$session:/workspace/data"
"$stockade" exec "$session" -- sh -c 'echo "changed inside" >> data/deep/note'
"$stockade" cp "$session:/workspace/data" "$place/back"
cat "$place/back/deep/note"

# A timeout ends one program; the session and its files remain.
code=0
"$stockade" exec --quiet --timeout 500ms "$session" -- sh -c 'echo unfinished > draft; sleep 60' || code=$?
echo "the slow program ended with $code"
"$stockade" exec "$session" -- cat draft site/index.html

"$stockade" rm "$session" > /dev/null
! "$stockade" ls -q | grep -qx "$session"
echo "the session is gone"

#!/usr/bin/env bash
# A first hour with Stockade: hello, a script and a policy of one's own, a denied and an allowed
# host, files out of the sandbox, a session, and nothing left at the end.
# STOCKADE names the command, by default `stockade` of the PATH.
set -euo pipefail
stockade=${STOCKADE:-stockade}
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=$(mktemp -d)
server=
session=
finish() {
    if [[ -n $session ]]; then "$stockade" rm -f "$session" > /dev/null 2>&1 || true; fi
    if [[ -n $server ]]; then kill "$server"; fi
    rm -r "$place"
}
trap finish EXIT
mkdir "$place/project" && cd "$place/project"

echo "== does it work here?"
"$stockade" version | head -n 1
"$stockade" doctor > doctor.txt
"$stockade" run "$examples/hello.py"

echo "== a script of one's own"
cat > count.py <<'PY'
import sys
words = open("text.txt").read().split()
print(len(words), "words")
open("counted.txt", "w").write(str(len(words)))
PY
echo "one two three" > text.txt
"$stockade" run --workspace . count.py
[[ ! -e counted.txt ]] && echo "the project is unchanged"

echo "== a policy of one's own"
"$stockade" init --workspace read --write "$place/out:/output" --timeout 20s --yes 2> /dev/null
"$stockade" policy check stockade.yaml
mkdir "$place/out"
"$stockade" run --policy stockade.yaml -- sh -c 'wc -w < text.txt > /output/words; echo more >> text.txt' ||
    echo "writing to the project failed with $?"
echo "the result outside: $(cat "$place/out/words")"

echo "== hosts"
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$place/out" > server.txt 2>&1 &
server=$!
until grep -q '^Serving' server.txt; do sleep 0.1; done
port=$(sed -n 's/^Serving.* port \([0-9]*\) .*/\1/p' server.txt)
cat > fetch.py <<PY
import urllib.request
print("fetched", urllib.request.urlopen("http://127.0.0.1:$port/words", timeout=10).read().decode().strip())
PY
"$stockade" run --quiet fetch.py 2> /dev/null || echo "without permission: refused"
"$stockade" run --allow-host "127.0.0.1:$port" fetch.py

echo "== a session"
session=$("$stockade" create --policy stockade.yaml)
"$stockade" exec "$session" -- sh -c 'echo "kept between programs" > /tmp/note'
"$stockade" code "$session" --language python - <<< 'print(open("/tmp/note").read().strip())'
"$stockade" cp "$session:/tmp/note" "$place/note"
cat "$place/note"

echo "== clean up"
"$stockade" rm "$session" > /dev/null
session=
"$stockade" audit ls | tail -n 1 | grep -q . && echo "every run has its record"
[[ -z $("$stockade" ls -q) ]] && echo "nothing is left"

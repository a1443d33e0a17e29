#!/usr/bin/env bash
# An agent goes wrong, goes back, and tries three ways at once; one file of one of them is kept.
# STOCKADE names the command, by default `stockade` of the PATH.
set -euo pipefail
stockade=${STOCKADE:-stockade}

place=$(mktemp -d)
export STOCKADE_STORE=${STOCKADE_STORE:-$place/store}
session=
forks=
# shellcheck disable=SC2086 # Several names.
trap '"$stockade" rm -f $session $forks > /dev/null 2>&1 || true; rm -rf "$place"' EXIT

# A project of a person. The session works on a copy.
mkdir -p "$place/project/src"
printf 'one\ntwo\nthree\n' > "$place/project/src/list"
echo "keep me" > "$place/project/notes"
session=$("$stockade" create --workspace "$place/project")

# Work, and keep it.
"$stockade" exec "$session" -- sh -c 'echo four >> src/list; mkdir build; echo result > build/out'
"$stockade" checkpoint "$session" good 2> /dev/null

# Break everything, and go back.
"$stockade" exec "$session" -- sh -c 'rm -rf src notes; echo broken > build/out'
"$stockade" exec "$session" -- sh -c 'ls src 2> /dev/null || echo "everything is gone"'
"$stockade" restore "$session" good > /dev/null
"$stockade" exec "$session" -- sh -c 'tail -n 1 src/list; cat build/out'

# Three ways at once.
forks=$("$stockade" fork "$session" -n 3 --from good)
number=0
for fork in $forks; do
  number=$((number + 1))
  "$stockade" exec "$fork" -- sh -c "echo idea $number > src/idea; sed -i s/one/ONE$number/ src/list"
done
for fork in $forks; do
  "$stockade" diff "$fork" --from good | grep '^[+-][^+-]'
done

# One file of the second one, for the person.
chosen=$(echo "$forks" | sed -n 2p)
"$stockade" apply "$chosen" --only src/list
cat "$place/project/src/list"
ls "$place/project"

# Nothing is left.
# shellcheck disable=SC2086 # Several names.
"$stockade" rm -f $session $forks > /dev/null
for checkpoint in $("$stockade" checkpoints -q); do
  "$stockade" checkpoint rm "$checkpoint" > /dev/null
done
"$stockade" store gc 2> /dev/null
"$stockade" store ls | grep -E 'checkpoints|blobs'
echo "nothing is left"

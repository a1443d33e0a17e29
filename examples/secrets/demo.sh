#!/usr/bin/env bash
# A program calls an API with a placeholder: only the server sees the real key.
# STOCKADE names the command, by default `stockade` of the PATH.
set -euo pipefail
stockade=${STOCKADE:-stockade}
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null || true; rm -r "$place"' EXIT

# The key exists on this side only.
export DEMO_API_KEY=${DEMO_API_KEY:-demo-$(openssl rand -hex 16)}

# A certificate that this machine trusts, for this run.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=demo \
    -addext "subjectAltName=IP:127.0.0.1,IP:127.0.0.2" -addext basicConstraints=critical,CA:FALSE \
    -keyout "$place/key.pem" -out "$place/certificate.pem" 2> /dev/null
export SSL_CERT_FILE=$place/certificate.pem

mkfifo "$place/input" "$place/port"
python3 "$here/server.py" "$place/certificate.pem" "$place/key.pem" < "$place/input" > "$place/port" &
server=$!
exec 3> "$place/input" 4< "$place/port"
read -r port <&4

sed "s/8443/$port/" "$here/policy.yaml" > "$place/policy.yaml"
"$stockade" run --policy "$place/policy.yaml" "$here/agent.py" "$port"

exec 3>&-
wait "$server" || true
echo "the servers saw:"
cat <&4

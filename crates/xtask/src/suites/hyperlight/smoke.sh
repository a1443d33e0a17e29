#!/bin/sh
set -e
chmod 700 /root/.cache/stockade/wasm/compiled
chmod 644 /root/.cache/stockade/wasm/compiled/*
mount -t debugfs debugfs /sys/kernel/debug
session=$(stockade create --provider hyperlight --timeout 2s)
stockade code --language python "$session" - <<'END'
import sys
print("hello from the micro-VM:", sys.platform)
END
stockade code --json --language python "$session" - <<'END' || true
while True: pass
END
echo 'print("still here")' | stockade code --language python "$session" -
# The kernel counts for machines that exist.
echo "kvm exits: $(cat /sys/kernel/debug/kvm/exits)"
stockade rm --force "$session"

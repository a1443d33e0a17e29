"""Runs machines of the virtual machine wall with KVM, and looks where `/dev/kvm` is."""

import json
import subprocess


def stockade(*words: str) -> str:
    done = subprocess.run(["stockade", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


run = ("run", "--no-record", "--json", "--memory", "128m")
look = ("--", "sh", "-c", "test ! -e /dev/kvm && uname -r")

# The policy accepts no weaker wall, so a translated machine would be refused.
report = json.loads(stockade(*run, "--provider", "qemu", "--isolation", "vm", *look))
isolation = json.dumps(report["isolation"])
assert report["outcome"] == "exited", report
assert report["isolation"]["level"] == "vm", isolation
assert "by kvm: " in isolation and "by tcg" not in isolation, isolation

# Only the wall around QEMU has the device: neither its machine nor another sandbox.
report = json.loads(stockade(*run, "--provider", "native", *look))
assert report["outcome"] == "exited", report

machines = json.loads(stockade("doctor", "--json"))["machine"]["machines"]
assert machines["accelerator"] == "kvm" and machines["kvm_obstacle"] is None, machines

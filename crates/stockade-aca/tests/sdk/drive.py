"""Drives the double with Azure's own Python library, one act after another, and prints the requests
of each act as JSON: the recorded traffic in sdk-traffic.json.

    pip install --pre azure-containerapps-sandbox azure-mgmt-core
    cargo run -p stockade-azure-double | python3 drive.py ...

tests/wall/golden.rs says how; it needs no Azure and no network.
"""

import json
import os
import subprocess
import sys
import time

from azure.containerapps.sandbox import (
    EgressHostRule,
    EgressPolicy,
    SandboxGroupClient,
    SandboxGroupManagementClient,
)
from azure.core.credentials import AccessToken


class Static:
    """A credential with the double's own tokens."""

    def get_token(self, *scopes, **_):
        name = "static-arm-token" if "management.azure.com" in scopes[0] else "static-data-token"
        return AccessToken(name, int(time.time()) + 3600)


def main(double):
    server = subprocess.Popen(
        [double, "--without-group"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    started = json.loads(server.stdout.readline())
    if "cannot" in started:
        sys.exit(started["cannot"])
    variables = started["variables"]
    os.environ["REQUESTS_CA_BUNDLE"] = variables["REQUESTS_CA_BUNDLE"]
    names = {
        "subscription_id": variables["AZURE_SUBSCRIPTION_ID"],
        "resource_group": variables["STOCKADE_ACA_RESOURCE_GROUP"],
    }
    group_name = variables["STOCKADE_ACA_SANDBOX_GROUP"]
    endpoint = variables["STOCKADE_ACA_ENDPOINT"]
    management = SandboxGroupManagementClient(Static(), **names)
    # The library has no option for this address.
    management._endpoint = endpoint
    acts = []

    def act(name):
        acts.append(name)

    act("group_missing")
    try:
        management.get_group(group_name)
        sys.exit("the group exists")
    except Exception as error:
        assert "404" in str(getattr(error, "status_code", error)), error
    act("group_create")
    management.begin_create_group(group_name, "westus2", polling_interval=0).result()
    act("group_look")
    management.get_group(group_name)
    group = SandboxGroupClient(endpoint, Static(), sandbox_group=group_name, **names)
    act("create")
    policy = EgressPolicy("Deny", [EgressHostRule("packages.example.net", "Allow")], traffic_inspection="Full")
    sandbox = group.begin_create_sandbox(
        disk="python-3.13",
        cpu="500m",
        memory="1024Mi",
        labels={"agent_id": "agent-1"},
        egress_policy=policy,
        polling_interval=0,
    ).result()
    act("look")
    sandbox.get()
    act("list")
    list(group.list_sandboxes(labels={"agent_id": "agent-1"}))
    act("egress")
    sandbox.set_egress_policy(policy)
    act("write")
    sandbox.write_file("/workspace/d/a b.txt", b"hello")
    act("read")
    assert sandbox.read_file("/workspace/d/a b.txt") == b"hello"
    act("stat")
    sandbox.stat_file("/workspace/d/a b.txt")
    act("entries")
    sandbox.list_files("/workspace")
    act("mkdir")
    sandbox.mkdir("/workspace/e")
    act("execute")
    assert sandbox.exec("echo hello").stdout == "hello\n"
    act("decisions")
    sandbox.get_egress_decisions()
    act("remove")
    sandbox.delete_file("/workspace/d", recursive=True)
    act("stop")
    sandbox.stop()
    act("resume")
    sandbox.resume()
    act("delete")
    sandbox.begin_delete(polling_interval=0).result()
    server.stdin.close()
    ended = json.loads(server.stdout.readline())
    assert ended["left"] == [], ended["left"]
    print(json.dumps({"acts": acts, "log": ended["log"]}, indent=1))


main(sys.argv[1])

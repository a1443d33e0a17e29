"""One program for every provider: ``python agent_program.py native`` or ``docker``. It needs no test
runner, so that any user can run it."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent_sandbox import (
    DockerSandboxProvider,
    ExecutionStatus,
    IsolationRuntime,
    NonoSandboxProvider,
    SandboxConfig,
    SessionStatus,
)
from agent_os.policies import PolicyDocument

POLICY = """
name: program
version: "2"
defaults: {{action: allow, max_cpu: 1.0, max_memory_mb: 256, timeout_seconds: 20}}
network_allowlist: ["127.0.0.1:{port}"]
tool_allowlist: [fetch]
sandbox_mounts: {{input_dir: {given}, output_dir: {taken}}}
rules:
  - name: deny-shell-out
    condition: {{field: code, operator: contains, value: subprocess}}
    action: deny
    priority: 100
    message: "shell-out blocked"
"""

CODE = """
import os, urllib.request
print(os.environ["WORD"], fetch("cs.CL"), urllib.request.urlopen({url!r}).read().decode())
open("/output/result", "w").write(open("/input/data").read().upper())
try:
    hidden("x")
except NameError:
    print("no other tool")
try:
    urllib.request.urlopen("http://192.0.2.1/", timeout=10)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def fetch(query: str) -> str:
    return f"<{query}>"


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"served")

    def log_message(self, *_: Any) -> None:
        return None


def provider_of(wall: str) -> Any:
    tools = {"fetch": fetch, "hidden": fetch}
    if wall == "docker":
        return DockerSandboxProvider(runtime=IsolationRuntime.RUNC, tools=tools)
    return NonoSandboxProvider(tools=tools)


async def program(wall: str, place: Path, port: int) -> None:
    provider = provider_of(wall)
    assert provider.is_available(), provider.unavailable_reason
    given, taken = place / "in", place / "out"
    given.mkdir()
    taken.mkdir()
    (given / "data").write_text("given")
    file = place / "policy.yaml"
    file.write_text(POLICY.format(port=port, given=given, taken=taken))
    policy = PolicyDocument.from_yaml(file)
    config = SandboxConfig(env_vars={"WORD": "said"}, memory_mb=128)
    session = await provider.create_session_async("agent-1", policy=policy, config=config)
    try:
        code = CODE.format(url=f"http://127.0.0.1:{port}/")
        done = await provider.execute_code_async("agent-1", session.session_id, code)
        expected = "said <cs.CL> served\nno other tool\n403\n"
        assert (done.result.stdout, done.status) == (expected, ExecutionStatus.COMPLETED), done
        written = taken / "result"
        assert written.read_text() == "GIVEN" and written.stat().st_uid == taken.stat().st_uid
        try:
            await provider.execute_code_async("agent-1", session.session_id, "import subprocess")
            raise AssertionError("the rule did not deny")
        except PermissionError as error:
            assert "shell-out blocked" in str(error), error
        ran = provider.run("agent-1", ["cat", "/input/data"], session_id=session.session_id)
        assert ran.success and ran.stdout == "given", ran
    finally:
        await provider.destroy_session_async("agent-1", session.session_id)
    status = provider.get_session_status("agent-1", session.session_id)
    assert status is SessionStatus.DESTROYED


def main() -> None:
    wall = sys.argv[1]
    with tempfile.TemporaryDirectory() as place:
        with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            asyncio.run(program(wall, Path(place).resolve(), server.server_address[1]))
            server.shutdown()
    print(f"the program gave the documented results on {wall}")


main()

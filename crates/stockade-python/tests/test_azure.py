"""``agent_sandbox.ACASandboxProvider`` against the double of Azure, started with its executable."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_sandbox import (
    ACASandboxProvider,
    ExecutionHandle,
    ExecutionStatus,
    SandboxConfig,
    SessionStatus,
)
from conftest import ROOT

DOUBLE = os.environ.get("STOCKADE_AZURE_DOUBLE")
REQUIRED = {"python", "all"} & set(os.environ.get("STOCKADE_REQUIRE", "").split(","))


class Double:
    """A running double, and what it printed at its end."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        assert DOUBLE is not None
        self.process = subprocess.Popen([DOUBLE], stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout is not None
        started = json.loads(self.process.stdout.readline())
        self.cannot = started.get("cannot")
        self.variables: dict[str, str] = started.get("variables", {})

    def end(self) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        text = self.process.stdout.readline()
        self.process.wait(timeout=30)
        ended: dict[str, Any] = json.loads(text) if text else {}
        return ended


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    if DOUBLE is None and not REQUIRED:
        pytest.skip("STOCKADE_AZURE_DOUBLE names no executable of stockade-azure-double")
    running = Double()
    if running.cannot:
        assert not REQUIRED, running.cannot
        pytest.skip(running.cannot)
    for name, value in running.variables.items():
        monkeypatch.setenv(name, value)
    yield running
    if running.process.poll() is None:
        running.end()


def provider(**more: Any) -> ACASandboxProvider:
    return ACASandboxProvider("agents-rg", "agents", disk="python-3.13", **more)


def test_session_runs_code_in_azure_and_close_deletes_it(double: Double) -> None:
    with provider() as agents:
        assert agents.is_available() and agents.unavailable_reason is None
        handle = agents.create_session("agent-1", config=SandboxConfig(env_vars={"WORD": "hi"}))
        code = "import os, socket; print(os.environ['WORD'], socket.gethostname())"
        ran = agents.execute_code("agent-1", handle.session_id, code)
        assert ran.result is not None and ran.result.stdout == "hi aca-sandbox\n", ran
        assert agents.get_session_status("agent-1", handle.session_id) is SessionStatus.READY
    assert agents.get_session_status("agent-1", handle.session_id) is SessionStatus.DESTROYED
    ended = double.end()
    assert ended["left"] == [] and ended["created"] == 1
    creates = [it for it in ended["log"] if it["method"] == "PUT"]
    created = next(it for it in creates if it["path"].endswith("/sandboxes"))
    assert created["body"]["labels"]["agent_id"] == "agent-1"


def test_session_without_a_config_asks_for_what_azures_library_asks_for(double: Double) -> None:
    with provider() as agents:
        agents.create_session("a")
        agents.create_session("a", config=SandboxConfig(memory_mb=1024, cpu_limit=0.5))
        agents.create_session("a", policy={"defaults": {"max_memory_mb": 512}})
    creates = [it["body"] for it in double.end()["log"] if it["path"].endswith("/sandboxes")]
    asked = [it["resources"] for it in creates if it]
    assert asked == [
        {"cpu": "1000m", "memory": "2048Mi"},
        {"cpu": "500m", "memory": "1024Mi"},
        {"cpu": "1000m", "memory": "512Mi"},
    ]


def test_close_ends_the_other_sessions_when_one_cannot_be_ended(
    double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = provider()
    sessions = [agents.create_session("a").session_id for _ in range(3)]
    destroy = agents.destroy_session

    def fails_for_the_first(agent: str, session: str) -> None:
        if session == sessions[0]:
            raise RuntimeError("the service is busy")
        destroy(agent, session)

    monkeypatch.setattr(agents, "destroy_session", fails_for_the_first)
    with pytest.raises(RuntimeError, match="cannot end 1 of 3 sessions: .*the service is busy"):
        agents.close()
    states = [agents.get_session_status("a", session) for session in sessions]
    assert states == [SessionStatus.READY, SessionStatus.DESTROYED, SessionStatus.DESTROYED]
    monkeypatch.setattr(agents, "destroy_session", destroy)
    agents.close()
    assert double.end()["left"] == []


def test_credential_of_the_caller_is_asked_for_each_scope(
    double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_CLIENT_SECRET")
    asked: list[str] = []

    def get_token(scope: str) -> SimpleNamespace:
        asked.append(scope)
        return SimpleNamespace(token="static-data-token", expires_on=time.time() + 3600)

    with provider(credential=SimpleNamespace(get_token=get_token)) as agents:
        handle = agents.create_session("a")
        ran = agents.execute_code("a", handle.session_id, "print(1)")
        assert ran.result is not None and ran.result.stdout == "1\n"
    assert set(asked) == {"https://dynamicsessions.io/.default"}

    def fails(scope: str) -> SimpleNamespace:
        raise ValueError("the-secret-of-this-credential")

    with provider(credential=SimpleNamespace(get_token=fails)) as agents:
        with pytest.raises(RuntimeError, match="the credential raised ValueError") as raised:
            agents.create_session("a")
    assert "the-secret" not in str(raised.value)


def test_timeout_is_an_outcome_and_the_session_goes_on(double: Double) -> None:
    with provider() as agents:
        handle = agents.create_session("a", policy={"defaults": {"timeout_seconds": 1}})
        ran = agents.execute_code("a", handle.session_id, "while True: pass")
        assert ran.result is not None and ran.result.killed and "timeout" in ran.result.kill_reason
        ran = agents.execute_code("a", handle.session_id, "print('on')")
        assert ran.result is not None and ran.result.stdout == "on\n"


def test_running_execution_is_cancelled_and_its_status_is_kept(double: Double) -> None:
    with provider() as agents:
        session = agents.create_session("a").session_id
        done: list[ExecutionHandle] = []

        def run() -> None:
            done.append(agents.execute_code("a", session, "import time; time.sleep(1000)"))

        thread = threading.Thread(target=run)
        thread.start()
        until = time.monotonic() + 30
        while not agents.list_executions("a", session) and time.monotonic() < until:
            time.sleep(0.02)
        (running,) = agents.list_executions("a", session)
        execution = running.execution_id
        shown = agents.get_execution_status("a", session, execution)
        assert shown.status is ExecutionStatus.RUNNING and shown.result is None
        assert agents.cancel_execution("a", session, execution)
        thread.join(30)
        assert done[0].status is ExecutionStatus.CANCELLED
        assert done[0].result is not None and done[0].result.killed
        assert agents.get_execution_status("a", session, execution) == done[0]
        assert not agents.cancel_execution("a", session, execution)
        assert asyncio.run(agents.cancel_execution_async("a", session, "00000000")) is False
        with pytest.raises(KeyError):
            agents.get_execution_status("a", session, "00000000")
        # The session is the same one, and no execution was sent a second time.
        ran = agents.execute_code("a", session, "print('on')")
        assert ran.result is not None and ran.result.stdout == "on\n"
    ended = double.end()
    assert ended["created"] == 1 and ended["left"] == []
    executed = [it for it in ended["log"] if it["path"].endswith("/executeShellCommand")]
    sent = [it["body"]["command"] for it in executed if " run " in it["body"]["command"]]
    # A cancelled execution may not have been sent at all; none is sent twice.
    assert len(sent) in (1, 2) and len(set(sent)) == len(sent), sent


def test_directories_of_this_host_are_refused_before_a_request(
    double: Double, tmp_path: Path
) -> None:
    place = str(tmp_path)
    with provider() as agents:
        for config in (SandboxConfig(output_dir=place), SandboxConfig(input_dir=place)):
            with pytest.raises(RuntimeError, match="sees no files of this host"):
                agents.create_session("a", config=config)
        # Without a directory the same session is made, and its files stay inside.
        session = agents.create_session("a", config=SandboxConfig()).session_id
        code = "open('result', 'w').write('r'); print(open('result').read())"
        ran = agents.execute_code("a", session, code)
        assert ran.result is not None and ran.result.stdout == "r\n"
    assert list(tmp_path.iterdir()) == []
    assert double.end()["created"] == 1


def test_azure_quick_start_passes_every_branch(double: Double) -> None:
    variables = {**os.environ, "AZURE_RG": "agents-rg", "AZURE_REGION": "westus2"}
    example = ROOT / "examples/quickstart/aca_sandbox_test.py"
    words = [sys.executable, str(example)]
    ran = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    branches = ["allowed", "policy denies", "egress blocks", "sanity", "tool allowed"]
    branches += ["tool denied", "runs elsewhere", "egress audit"]
    assert all(f"\n{name:<16} " in f"\n{ran.stdout}" for name in branches), ran.stdout
    assert double.end()["left"] == []


def test_sessions_of_asyncio_are_created_executed_and_destroyed(double: Double) -> None:
    async def use(agents: ACASandboxProvider) -> str:
        handle = await agents.create_session_async("a")
        ran = await agents.execute_code_async("a", handle.session_id, "print(2)")
        await agents.destroy_session_async("a", handle.session_id)
        assert ran.result is not None
        return ran.result.stdout

    assert asyncio.run(use(provider())) == "2\n"
    assert double.end()["left"] == []

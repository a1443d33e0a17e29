"""Programs of ``agent_sandbox``, behind each wall that takes the place of its providers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import make, only_docker
from conftest import eventually

from agent_sandbox import (
    ExecutionStatus,
    IsolationRuntime,
    MxcSandboxProvider,
    NonoSandboxProvider,
    SandboxConfig,
    SandboxProvider,
    SandboxResult,
    SessionStatus,
)


@pytest.fixture
def agents(provider: str) -> Any:
    """A provider of sessions."""
    return make(provider)


@pytest.fixture
def session(agents: Any) -> Iterator[str]:
    """The id of an open session of ``agent-1``."""
    made = agents.create_session("agent-1")
    yield made.session_id
    agents.destroy_session("agent-1", made.session_id)


def test_session_runs_code_and_ends(agents: Any) -> None:
    assert agents.is_available() and agents.unavailable_reason is None
    made = agents.create_session("agent-1")
    assert (made.agent_id, made.status) == ("agent-1", SessionStatus.READY)
    assert len(made.session_id) == 8 and int(made.session_id, 16) >= 0
    done = agents.execute_code("agent-1", made.session_id, "print('hello')")
    assert done.result == SandboxResult(
        True, 0, "hello\n", "", done.result.duration_seconds, False, ""
    )
    assert done.status is ExecutionStatus.COMPLETED and len(done.execution_id) == 8
    assert agents.get_session_status("agent-1", made.session_id) is SessionStatus.READY
    agents.destroy_session("agent-1", made.session_id)
    agents.destroy_session("agent-1", made.session_id)
    assert agents.get_session_status("agent-1", made.session_id) is SessionStatus.DESTROYED


def test_failing_code_is_a_result_and_not_an_exception(agents: Any, session: str) -> None:
    done = agents.execute_code("agent-1", session, "import sys; print(1); sys.exit(3)")
    assert done.status is ExecutionStatus.FAILED
    assert (done.result.success, done.result.exit_code, done.result.stdout) == (False, 3, "1\n")
    done = agents.execute_code("agent-1", session, "raise ValueError('no')")
    assert "ValueError: no" in done.result.stderr and not done.result.killed


def test_files_stay_in_the_workspace_of_a_session(agents: Any, session: str) -> None:
    agents.execute_code("agent-1", session, "open('note', 'w').write('kept')")
    shown = "import os; print(os.getcwd(), open('/workspace/note').read(), os.getuid() != 0)"
    assert agents.execute_code("agent-1", session, shown).result.stdout == "/workspace kept True\n"


def test_run_runs_a_command_in_the_session_of_an_agent(agents: Any, session: str) -> None:
    config = SandboxConfig(env_vars={"WORD": "said"}, timeout_seconds=20)
    ran = agents.run("agent-1", ["sh", "-c", "echo $WORD $0; exit 4", "one word"], config)
    assert (ran.success, ran.exit_code, ran.stdout) == (False, 4, "said one word\n")
    assert agents.run("agent-1", ["python", "-c", "print(2)"], session_id=session).stdout == "2\n"
    missing = agents.run("agent-1", ["no-such-program"])
    assert missing.exit_code == 127 and "no-such-program" in missing.stderr
    with pytest.raises(ValueError, match="memory_mb"):
        agents.run("agent-1", ["true"], SandboxConfig(memory_mb=64))


def test_run_without_a_session(provider: str) -> None:
    agents = make(provider)
    unknown = agents.run("agent-1", ["true"], session_id="00000000")
    assert not unknown.success and unknown.exit_code == -1
    alone = agents.run("agent-1", ["echo", "alone"])
    if provider == "docker":
        assert "No container" in unknown.stderr and "No container" in alone.stderr
    else:
        assert alone.stdout == "alone\n"


def test_unknown_session_is_a_runtime_error(agents: Any) -> None:
    with pytest.raises(RuntimeError, match=r"No active session for agent 'a' with session_id 's'"):
        agents.execute_code("a", "s", "print(1)")


@pytest.mark.parametrize("agent_id", ["", ".a", "a/b", "a b", "a\n", "ä", "x" * 129])
def test_agent_id_that_is_not_plain_is_refused(agents: Any, agent_id: str) -> None:
    with pytest.raises(ValueError, match="agent_id"):
        agents.create_session(agent_id)


def test_environment_reaches_code_without_what_changes_interpreters(agents: Any) -> None:
    variables = {"WORD": "w", "API_KEY": "k", "pythonpath": "/x", "LD_PRELOAD": "/x.so"}
    made = agents.create_session("a", config=SandboxConfig(env_vars=variables))
    shown = "import os; print({n: os.environ.get(n) for n in ('WORD', 'API_KEY', 'LD_PRELOAD')})"
    done = agents.execute_code("a", made.session_id, shown)
    assert done.result.stdout == "{'WORD': 'w', 'API_KEY': 'k', 'LD_PRELOAD': None}\n"
    agents.destroy_session("a", made.session_id)


def test_credential_of_one_run_reaches_that_run_only(agents: Any, session: str) -> None:
    value = "canary-5d0c7f"
    shown = "import os; print(os.environ.get('API' + '_KEY', 'unset'), os.environ.get('WORD'))"
    config = SandboxConfig(env_vars={"API_KEY": value, "WORD": "said", "LD_PRELOAD": "/x.so"})
    ran = agents.run("agent-1", ["python", "-c", shown], config, session_id=session)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, f"{value} said\n", "")
    ran = agents.run("agent-1", ["python", "-c", shown], session_id=session)
    assert ran.stdout == "unset None\n"
    done = agents.execute_code("agent-1", session, shown)
    assert done.result.stdout == "unset None\n"
    # Names that Stockade refuses for another reason stay refused, without their values.
    config = SandboxConfig(env_vars={"HTTP_PROXY": value})
    refused = agents.run("agent-1", ["true"], config, session_id=session)
    assert not refused.success and "HTTP_PROXY" in refused.stderr and value not in refused.stderr


def test_input_is_read_only_and_output_is_on_the_host(agents: Any, tmp_path: Path) -> None:
    given, taken = tmp_path / "in", tmp_path / "out"
    given.mkdir()
    taken.mkdir()
    (given / "x").write_text("given")
    (given / "x").chmod(0o644)
    given.chmod(0o755)
    config = SandboxConfig(input_dir=str(given), output_dir=str(taken))
    made = agents.create_session("a", config=config)
    code = "open('/output/y', 'w').write(open('/input/x').read().upper())"
    assert agents.execute_code("a", made.session_id, code).result.stderr == ""
    assert (taken / "y").read_text() == "GIVEN"
    assert (taken / "y").stat().st_uid == taken.stat().st_uid
    refused = agents.execute_code("a", made.session_id, "open('/input/x', 'w')")
    assert "Error" in refused.result.stderr and (given / "x").read_text() == "given"
    agents.destroy_session("a", made.session_id)


def test_async_calls_run_at_the_same_time(agents: Any) -> None:
    async def one(number: int) -> str:
        name = f"agent-{number}"
        made = await agents.create_session_async(name)
        try:
            done = await agents.execute_code_async(name, made.session_id, f"print({number})")
            return str(done.result.stdout)
        finally:
            await agents.destroy_session_async(name, made.session_id)

    async def every() -> list[str]:
        return list(await asyncio.gather(*(one(number) for number in range(4))))

    assert asyncio.run(every()) == ["0\n", "1\n", "2\n", "3\n"]


def test_running_execution_is_seen_and_cancelled_and_the_session_stays(
    agents: Any, session: str
) -> None:
    done: list[Any] = []
    code = "import time; print('up', flush=True); time.sleep(1000)"
    thread = threading.Thread(
        target=lambda: done.append(agents.execute_code("agent-1", session, code))
    )
    thread.start()
    assert eventually(lambda: bool(agents.list_executions("agent-1", session)))
    (running,) = agents.list_executions("agent-1", session)
    assert running.status is ExecutionStatus.RUNNING and running.result is None
    assert agents.get_session_status("agent-1", session) is SessionStatus.EXECUTING
    assert agents.cancel_execution("agent-1", session, running.execution_id)
    thread.join(30)
    assert done[0].status is ExecutionStatus.CANCELLED and done[0].result.killed
    assert agents.get_execution_status("agent-1", session, running.execution_id) == done[0]
    assert not agents.cancel_execution("agent-1", session, running.execution_id)
    assert asyncio.run(agents.cancel_execution_async("agent-1", session, "00000000")) is False
    with pytest.raises(KeyError):
        agents.get_execution_status("agent-1", session, "00000000")
    assert agents.execute_code("agent-1", session, "print(1)").result.stdout == "1\n"


def test_cancelled_task_ends_its_code(agents: Any, session: str) -> None:
    async def stop_early() -> None:
        code = "import time; time.sleep(1000)"
        task = asyncio.create_task(agents.execute_code_async("agent-1", session, code))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop_early())
    assert agents.get_session_status("agent-1", session) is SessionStatus.READY
    assert agents.list_executions("agent-1", session)[0].status is ExecutionStatus.CANCELLED
    assert agents.execute_code("agent-1", session, "print(1)").result.stdout == "1\n"


def test_cancelled_code_has_no_grace_unless_the_policy_gives_it(agents: Any) -> None:
    code = """
import signal, sys, time
def end(*_):
    open("ended", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
open("up", "w").close()
time.sleep(1000)
"""
    for limits, has_grace in (({}, False), ({"cancel_grace_seconds": 20}, True)):
        policy = {"defaults": {"action": "allow"}, "limits": limits}
        session = agents.create_session("a", policy=policy).session_id
        files = agents._registry.find("a", session).sandbox.files
        thread = threading.Thread(target=agents.execute_code, args=("a", session, code))
        thread.start()
        assert eventually(lambda: files.exists("up"))
        (running,) = agents.list_executions("a", session)
        assert agents.cancel_execution("a", session, running.execution_id)
        thread.join(30)
        assert files.exists("ended") is has_grace
        agents.destroy_session("a", session)


def test_cancelled_creation_leaves_no_session(agents: Any) -> None:
    async def stop_early() -> None:
        task = asyncio.create_task(agents.create_session_async("agent-1"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop_early())
    for thread in threading.enumerate():
        if thread.name == "agent-sandbox":
            thread.join(60)
    assert agents._registry.all() == []


def test_destroyed_session_ends_its_running_code(agents: Any) -> None:
    made = agents.create_session("a")
    done: list[Any] = []
    code = "import time; time.sleep(1000)"
    thread = threading.Thread(
        target=lambda: done.append(agents.execute_code("a", made.session_id, code))
    )
    thread.start()
    status = agents.get_session_status
    assert eventually(lambda: status("a", made.session_id) is SessionStatus.EXECUTING)
    agents.destroy_session("a", made.session_id)
    thread.join(30)
    assert not done[0].result.success and done[0].status is not ExecutionStatus.COMPLETED


def test_failed_execution_leaves_its_session_ready() -> None:
    agents = NonoSandboxProvider()
    session = agents.create_session("agent-1").session_id
    sandbox = agents._registry.find("agent-1", session).sandbox
    sandbox.pause()
    refused = agents.execute_code("agent-1", session, "print(1)")
    assert refused.result is not None
    assert refused.status is ExecutionStatus.FAILED and "paused" in refused.result.stderr
    assert not refused.result.killed and not agents.run("agent-1", ["true"]).success
    assert agents.get_session_status("agent-1", session) is SessionStatus.READY
    sandbox.resume()
    assert agents.run("agent-1", ["echo", "1"]).stdout == "1\n"
    agents.destroy_session("agent-1", session)


def test_run_once_leaves_no_session() -> None:
    for agents in (NonoSandboxProvider(), MxcSandboxProvider(backend="bubblewrap")):
        done = agents.run_once("a", "print('once')", config=SandboxConfig(timeout_seconds=20))
        assert done.result is not None and done.result.stdout == "once\n"
        assert agents.get_session_status("a", done.session_id) is SessionStatus.DESTROYED
        again = asyncio.run(agents.run_once_async("a", "print('again')"))
        assert again.result is not None and again.result.stdout == "again\n"


def test_code_sees_its_context_as_json() -> None:
    code = "import json, os; print(json.loads(os.environ['{}'])['task'])"
    given: dict[str, Any] = {"task": 7}
    done = NonoSandboxProvider().run_once("a", code.format("NONO_CONTEXT"), context=given)
    assert done.result is not None and done.result.stdout == "7\n"
    done = MxcSandboxProvider().run_once("a", code.format("MXC_CONTEXT"), context=given)
    assert done.result is not None and done.result.stdout == "7\n"


def test_other_backends_of_mxc_are_unavailable_and_not_replaced() -> None:
    for backend in ("microvm", "hyperlight", "seatbelt", "processcontainer"):
        agents = MxcSandboxProvider(backend=backend)
        assert not agents.is_available() and backend in str(agents.unavailable_reason)
        with pytest.raises(RuntimeError, match=backend):
            agents.create_session("a")
    with pytest.raises(ValueError, match="Unknown MXC backend"):
        MxcSandboxProvider(backend="paper")


def test_interpreter_is_named_or_refused() -> None:
    with pytest.raises(ValueError, match="not in PATH"):
        NonoSandboxProvider(interpreter="python9.9").create_session("a")
    with pytest.raises(ValueError, match="runs Python code"):
        NonoSandboxProvider(interpreter="node").run_once("a", "print(1)")
    with pytest.raises(ValueError, match="include_system_paths"):
        NonoSandboxProvider(include_system_paths=False).create_session("a")
    with pytest.raises(ValueError, match="for containers"):
        NonoSandboxProvider().create_session("a", config=SandboxConfig(runtime="runsc"))


def test_provider_of_a_program_keeps_the_defaults_of_the_base_class() -> None:
    class Own(SandboxProvider):
        def create_session(self, agent_id, policy=None, config=None):  # type: ignore[no-untyped-def, override]
            return None

        def execute_code(self, agent_id, session_id, code, *, context=None):  # type: ignore[no-untyped-def, override]
            return code

        def destroy_session(self, agent_id: str, session_id: str) -> None:
            return None

        def is_available(self) -> bool:
            return True

    own = Own()
    with pytest.raises(NotImplementedError, match="Own"):
        own.run("a", ["true"])
    assert own.get_session_status("a", "s") is SessionStatus.DESTROYED
    assert own.cancel_execution("a", "s", "e") is False
    assert own.get_execution_status("a", "s", "e").execution_id == "e"
    assert asyncio.run(own.execute_code_async("a", "s", "c")) == "c"  # type: ignore[comparison-overlap]


def test_sessions_of_many_threads_do_not_mix(agents: Any) -> None:
    seen: dict[int, str] = {}

    def work(number: int) -> None:
        made = agents.create_session(f"agent-{number}")
        done = agents.execute_code(f"agent-{number}", made.session_id, f"print({number})")
        seen[number] = done.result.stdout
        agents.destroy_session(f"agent-{number}", made.session_id)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert seen == {number: f"{number}\n" for number in range(8)}


def test_runtime_of_containers_is_reported(provider: str) -> None:
    if provider != "docker":
        pytest.skip("only containers have runtimes")
    agents = make("docker", runtime=IsolationRuntime.RUNC)
    assert (agents.runtime, agents.kernel_isolated) == (IsolationRuntime.RUNC, False)
    strongest = make("docker", runtime=IsolationRuntime.AUTO)
    assert strongest.runtime is not IsolationRuntime.AUTO
    assert strongest.kernel_isolated == (strongest.runtime is not IsolationRuntime.RUNC)


def test_destroying_is_quick(agents: Any) -> None:
    made = agents.create_session("a")
    agents.execute_code("a", made.session_id, "print(1)")
    start = time.monotonic()
    agents.destroy_session("a", made.session_id)
    assert time.monotonic() - start < 4


def test_output_of_roots_containers_is_copied_without_links(provider: str, tmp_path: Path) -> None:
    only_docker(provider)
    taken = tmp_path / "out"
    (taken / "old").mkdir(parents=True)
    (taken / "old" / "kept").write_text("k")
    (taken / "gone").write_text("g")
    (tmp_path / "secret").write_text("s3cret")
    agents = make("docker")
    made = agents.create_session("a", config=SandboxConfig(output_dir=str(taken)))
    code = f"""
import os
print(open('/output/old/kept').read(), sorted(os.listdir('/output')))
os.remove('/output/gone')
os.symlink({str(tmp_path / "secret")!r}, '/output/link')
os.makedirs('/output/new/deep')
open('/output/new/deep/file', 'w').write('n')
"""
    done = agents.execute_code("a", made.session_id, code)
    assert done.result.stdout == "k ['gone', 'old']\n", done.result
    found = sorted(str(it.relative_to(taken)) for it in taken.rglob("*") if it.is_file())
    assert found == ["new/deep/file", "old/kept"]
    big = "open('/output/big', 'wb').truncate(1 << 40)"
    if os.geteuid() == 0:
        with pytest.raises(RuntimeError, match="max_disk_mb"):
            agents.execute_code("a", made.session_id, big)
    agents.destroy_session("a", made.session_id)

"""`HyperLightSandboxProvider` on the wall that runs its component: in a micro-VM where the host can,
else on the wall that ``STOCKADE_HYPERLIGHT_WALL`` names. The suite ``hyperlight`` does both."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
from agents import readme_program, run_program, serving

import stockade
from agent_sandbox import (
    ExecutionStatus,
    HyperlightBackend,
    HyperLightSandboxProvider,
    SandboxConfig,
    SessionStatus,
    hyperlight_config_from_policy,
)
from agent_sandbox.hyperlight_provider.provider import WALL_VARIABLE

pytestmark = pytest.mark.skipif(
    not HyperLightSandboxProvider().is_available(),
    reason=str(HyperLightSandboxProvider().unavailable_reason),
)

# Where a translator runs the machine, everything takes ten times as long.
SLOW = 10 if HyperLightSandboxProvider().wall == "hyperlight" else 1

Run = Callable[[str], Any]


def fetch(query: str) -> str:
    """A result for a query."""
    return f"<results for {query}>"


def broken() -> str:
    """Fails."""
    raise ValueError("out of cheese")


@pytest.fixture
def agents() -> HyperLightSandboxProvider:
    return HyperLightSandboxProvider(tools={"fetch": fetch, "broken": broken})


@pytest.fixture
def run(agents: HyperLightSandboxProvider) -> Iterator[Run]:
    """Runs code in one session."""
    handle = agents.create_session("a")

    def act(code: str) -> Any:
        return agents.execute_code("a", handle.session_id, code).result

    yield act
    agents.destroy_session("a", handle.session_id)


def test_guest_contract_holds(run: Run) -> None:
    code = "import os, sys; print(sys.platform, dict(os.environ))"
    assert run(code).stdout == "wasi {}\n"
    code = """
import socket
try:
    socket.socket()
except OSError as error:
    print(type(error).__name__)
"""
    assert run(code).stdout == "PermissionError\n"
    run("import builtins; builtins.leak = 1; leak = 2")
    assert "NameError" in run("print(leak)").stderr


def test_tools_are_functions_and_their_errors_are_seen_inside(run: Run) -> None:
    assert run("print(fetch('x'), call_tool('fetch', query='y'))").stdout == (
        "<results for x> <results for y>\n"
    )
    code = "try:\n    broken()\nexcept Exception as error:\n    print(error)"
    assert "out of cheese" in run(code).stdout


def test_tool_that_is_not_listed_does_not_exist_inside(agents: HyperLightSandboxProvider) -> None:
    policy = {"tool_allowlist": ["broken"]}
    handle = agents.create_session("a", stockade.Policy.build(**policy))
    code = "try:\n    print(call_tool('fetch', query='x'))\nexcept Exception as error:\n    print('no')"
    assert agents.execute_code("a", handle.session_id, code).result.stdout == "no\n"
    agents.destroy_session("a", handle.session_id)


def test_host_that_is_not_listed_is_denied(run: Run) -> None:
    code = "try:\n    http_get('http://example.test/')\nexcept PermissionError as error:\n    print(error)"
    assert "example.test" in run(code).stdout


def test_endless_loop_is_ended_in_time_and_the_session_answers(
    agents: HyperLightSandboxProvider,
) -> None:
    config = SandboxConfig(timeout_seconds=1)
    handle = agents.create_session("a", config=config)
    start = time.monotonic()
    ended = agents.execute_code("a", handle.session_id, "while True: pass").result
    assert ended.killed and not ended.success and time.monotonic() - start < 4 * SLOW
    again = agents.execute_code("a", handle.session_id, "print('still here')")
    assert again.result.stdout == "still here\n"
    agents.destroy_session("a", handle.session_id)


def test_memory_bomb_is_ended_and_the_session_answers(agents: HyperLightSandboxProvider) -> None:
    handle = agents.create_session("a", config=SandboxConfig(memory_mb=192))
    code = "held = []\nwhile True: held.append(bytearray(10_000_000))"
    ended = agents.execute_code("a", handle.session_id, code).result
    assert not ended.success
    assert agents.execute_code("a", handle.session_id, "print(1)").result.stdout == "1\n"
    agents.destroy_session("a", handle.session_id)


def test_hundred_megabytes_of_output_are_cut(run: Run) -> None:
    ended = run("for _ in range(100): print('x' * (1 << 20))")
    assert ended.success and len(ended.stdout) < 2 << 20


def test_hard_abort_is_survived(run: Run) -> None:
    assert not run("import os; os.abort()").success
    assert run("print('still here')").stdout == "still here\n"


def test_code_over_ten_mebibytes_fails_and_the_session_answers(run: Run) -> None:
    largest = "print('fits')\n#" + "x" * ((10 << 20) - 15)
    assert len(largest) == 10 << 20 and run(largest).stdout == "fits\n"
    ended = run(largest + "x")
    assert not ended.success and ended.stdout == "" and not ended.killed
    assert "the code has 10485761 bytes, and at most 10485760 run" in ended.stderr
    assert run("print('still here')").stdout == "still here\n"


def test_ten_threads_use_one_session(run: Run) -> None:
    with ThreadPoolExecutor(10) as threads:
        ended = list(threads.map(lambda number: run(f"print({number})").stdout, range(10)))
    assert ended == [f"{number}\n" for number in range(10)]


def test_many_rounds_leave_no_thread_and_no_descriptor(agents: HyperLightSandboxProvider) -> None:
    rounds = 100

    def round_trip() -> None:
        handle = agents.create_session("a")
        assert agents.execute_code("a", handle.session_id, "print(1)").result.stdout == "1\n"
        agents.destroy_session("a", handle.session_id)

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    for _ in range(3):
        round_trip()
    time.sleep(1)
    before = held()
    for _ in range(rounds):
        round_trip()
    for _ in range(100):
        after = held()
        if after[0] <= before[0] + 4 and after[1] <= before[1] + 2:
            return
        time.sleep(0.1)
    pytest.fail(f"{before} became {after}")


def test_snapshot_brings_the_files_back(agents: HyperLightSandboxProvider) -> None:
    handle = agents.create_session("a")
    one = handle.session_id
    agents.execute_code("a", one, "open('kept.txt', 'w').write('first')")
    snapshot = agents.snapshot_session("a", one)
    assert (snapshot.agent_id, snapshot.session_id, len(snapshot.snapshot_id)) == ("a", one, 12)
    agents.execute_code("a", one, "open('kept.txt', 'w').write('second')")
    agents.restore_snapshot("a", one, snapshot.snapshot_id)
    assert agents.execute_code("a", one, "print(open('kept.txt').read())").result.stdout == "first\n"
    with pytest.raises(KeyError):
        agents.restore_snapshot("a", one, "0" * 12)
    agents.destroy_session("a", one)


def test_statuses_follow_a_session(agents: HyperLightSandboxProvider) -> None:
    handle = agents.create_session("a")
    assert agents.get_session_status("a", handle.session_id) is SessionStatus.READY
    ended = agents.execute_code("a", handle.session_id, "print(1)")
    assert ended.status is ExecutionStatus.COMPLETED
    agents.destroy_session("a", handle.session_id)
    assert agents.get_session_status("a", handle.session_id) is SessionStatus.DESTROYED


def test_backends_and_modules_that_do_not_exist_are_refused_by_name() -> None:
    for options, said in [
        ({"backend": "hyperlightjs"}, "no Hyperlight backend 'hyperlightjs'"),
        ({"backend": HyperlightBackend.NANVIX}, "no Hyperlight backend 'nanvix'"),
        ({"module": "javascript_guest"}, "no guest module 'javascript_guest'"),
    ]:
        agents = HyperLightSandboxProvider(**options)  # type: ignore[arg-type]
        assert not agents.is_available() and said in str(agents.unavailable_reason)
        with pytest.raises(RuntimeError, match=said):
            agents.create_session("a")
    for name in ("mshv", "WHP"):
        with pytest.raises(ValueError, match="it is a hypervisor"):
            HyperLightSandboxProvider(backend=name)


def test_stand_in_is_named_and_nothing_else_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WALL_VARIABLE, "docker")
    with pytest.raises(ValueError, match="only wasm can stand in"):
        HyperLightSandboxProvider()
    monkeypatch.setenv(WALL_VARIABLE, "wasm")
    agents = HyperLightSandboxProvider()
    assert agents.wall == "wasm" and agents._report().provider == "wasm"
    monkeypatch.delenv(WALL_VARIABLE)
    agents = HyperLightSandboxProvider()
    assert agents.wall == "hyperlight" and agents._report().provider == "hyperlight"


def test_config_is_made_from_a_policy() -> None:
    made = hyperlight_config_from_policy({"defaults": {"max_memory_mb": 96, "timeout_seconds": 2}})
    assert (made.heap_size_bytes, made.max_execution_time_ms) == (96 << 20, 2000)


def test_quick_start_runs_as_written(readme: str, tmp_path: Path) -> None:
    """The quick start of agt-sandbox's own README, as its package has it."""
    ended = run_program(readme_program(readme, "python", "fetch_arxiv('cs.CL')"), tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "<results for cs.CL>\n\n"


def test_only_the_tools_of_a_config_reach_the_code(agents: HyperLightSandboxProvider) -> None:
    handle = agents.create_session("a", config=SandboxConfig(tool_allowlist=["fetch"]))
    code = "print(fetch('x'))\ntry:\n    broken()\nexcept NameError as error:\n    print(error)"
    ended = agents.execute_code("a", handle.session_id, code).result
    assert ended is not None
    assert ended.stdout == "<results for x>\nname 'broken' is not defined\n", ended.stderr
    agents.destroy_session("a", handle.session_id)


def test_directories_and_variables_of_a_config_are_inside(
    agents: HyperLightSandboxProvider, tmp_path: Path
) -> None:
    places = {name: tmp_path / name for name in ("input", "output")}
    for place in places.values():
        place.mkdir()
    (places["input"] / "given.txt").write_text("given")
    config = SandboxConfig(
        input_dir=str(places["input"]),
        output_dir=str(places["output"]),
        env_vars={"COLOUR": "blue"},
    )
    handle = agents.create_session("a", config=config)
    code = """
import os
print(dict(os.environ), open("/input/given.txt").read())
open("/output/made.txt", "w").write("made")
try:
    open("/input/given.txt", "w")
except OSError as error:
    print("read-only")
"""
    ended = agents.execute_code("a", handle.session_id, code).result
    assert ended is not None
    assert ended.stdout == "{'COLOUR': 'blue'} given\nread-only\n", ended.stderr
    assert (places["output"] / "made.txt").read_text() == "made"
    assert (places["input"] / "given.txt").read_text() == "given"
    agents.destroy_session("a", handle.session_id)


def test_host_that_is_listed_answers_and_another_does_not(
    agents: HyperLightSandboxProvider,
) -> None:
    with serving() as (port, seen):
        policy = {"defaults": {"action": "allow"}, "network_allowlist": [f"127.0.0.1:{port}"]}
        handle = agents.create_session("a", policy)
        code = f"""
print(http_get("http://127.0.0.1:{port}/listed").text)
try:
    http_get("http://127.0.0.2:{port}/other")
except PermissionError as error:
    print("denied")
"""
        ended = agents.execute_code("a", handle.session_id, code).result
        assert ended is not None
        assert ended.stdout == "served /listed\ndenied\n", ended.stderr
        assert seen == ["/listed"]
        agents.destroy_session("a", handle.session_id)


def test_asynchronous_methods_do_the_same(agents: HyperLightSandboxProvider) -> None:
    async def work() -> None:
        handle = await agents.create_session_async("a")
        one = handle.session_id
        codes = [f"print({number})" for number in range(3)]
        ended = await asyncio.gather(*(agents.execute_code_async("a", one, it) for it in codes))
        shown = [it.result.stdout for it in ended if it.result is not None]
        assert shown == ["0\n", "1\n", "2\n"]
        endless = asyncio.ensure_future(agents.execute_code_async("a", one, "while True: pass"))
        while agents.get_session_status("a", one) is not SessionStatus.EXECUTING:
            await asyncio.sleep(0.01)
        (execution,) = [it for it in agents.list_executions("a", one) if it.result is None]
        assert await agents.cancel_execution_async("a", one, execution.execution_id)
        assert (await endless).status is ExecutionStatus.CANCELLED
        again = await agents.execute_code_async("a", one, "print('still here')")
        assert again.result is not None and again.result.stdout == "still here\n"
        await agents.destroy_session_async("a", one)
        assert agents.get_session_status("a", one) is SessionStatus.DESTROYED

    asyncio.run(work())


def test_every_report_and_record_names_the_wall(agents: HyperLightSandboxProvider) -> None:
    assert agents._report().provider == agents.wall
    handle = agents.create_session("a")
    agents.execute_code("a", handle.session_id, "print(1)")
    agents.destroy_session("a", handle.session_id)
    (record,) = Path(os.environ["XDG_STATE_HOME"]).glob("stockade/sessions/*.jsonl")
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    (started,) = [it["body"] for it in entries if it["kind"] == "execution_started"]
    assert started["provider"] == agents.wall
    assert started["isolation"] == ("vm" if agents.wall == "hyperlight" else "process")

"""Threads, forks, interrupts, garbage and the exit of the interpreter."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import eventually, processes, python

from stockade import ForkedError, Sandbox, _bridge


def test_hundred_threads_share_one_sandbox(provider: str) -> None:
    with Sandbox(provider=provider) as sandbox, ThreadPoolExecutor(100) as pool:
        numbers = pool.map(lambda number: sandbox.run(["echo", str(number)]).stdout, range(100))
        assert list(numbers) == [f"{number}\n" for number in range(100)]


def test_other_threads_run_while_one_waits() -> None:
    with Sandbox() as sandbox:
        handle = sandbox.start(["cat"], stdin=True)
        waiter = threading.Thread(target=handle.wait)
        waiter.start()
        handle.close_stdin()
        waiter.join(20)
        assert not waiter.is_alive()


def test_binding_adds_little_to_a_call() -> None:
    with Sandbox() as sandbox:
        handle = sandbox.start(["sleep", "1000"])
        times = []
        for _ in range(200):
            began = time.perf_counter()
            _bridge.wait(handle._running.started())
            times.append(time.perf_counter() - began)
        assert min(times) < 0.0003, f"{min(times) * 1000:.3f} ms"


def test_interrupt_cancels_the_program_and_is_raised() -> None:
    code = """
import os, signal, threading, time
from stockade import Sandbox
# A caller of the tests that ignores the signal leaves Python without its handler.
signal.signal(signal.SIGINT, signal.default_int_handler)
with Sandbox() as sandbox:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        sandbox.run("sleep 1000")
    except KeyboardInterrupt:
        print("interrupted")
    print(sandbox.run("! pgrep sleep").exit_code)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        sandbox.run("echo x; sleep 1000", on_stdout=len)
    except KeyboardInterrupt:
        print("interrupted")
    print(sandbox.run("! pgrep sleep").exit_code)
"""
    assert python(code).stdout == "interrupted\n0\ninterrupted\n0\n"


def test_exit_with_open_sandboxes_leaves_nothing(provider: str) -> None:
    mark = f"stockade-exit-{os.getpid()}"
    code = f"""
import sys, threading
from stockade import Sandbox
kept = [Sandbox(provider="{provider}") for _ in range(3)]
for sandbox in kept:
    sandbox.start(["sh", "-c", "sleep 1000; : {mark}"])
def work():
    try:
        kept[0].run("sleep 1000")
    except Exception:
        pass
threading.Thread(target=work, daemon=True).start()
print("open")
"""
    ended = python(code)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("open\n", "", 0)
    assert eventually(lambda: not processes(mark))


def test_killed_interpreter_leaves_nothing() -> None:
    mark = f"stockade-kill-{os.getpid()}"
    code = f"""
import os, signal
from stockade import Sandbox
sandbox = Sandbox()
handle = sandbox.start(["sh", "-c", "echo on; sleep 1000; : {mark}"])
next(iter(handle.stdout))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert python(code).returncode == -signal.SIGKILL
    assert eventually(lambda: not processes(mark))


def test_garbage_ends_a_sandbox_and_warns(provider: str) -> None:
    mark = f"stockade-garbage-{os.getpid()}"
    sandbox = Sandbox(provider=provider)
    handle = sandbox.start(["sh", "-c", f"echo on; sleep 1000; : {mark}"])
    assert next(iter(handle.stdout)) == "on\n" and processes(mark)
    with pytest.warns(ResourceWarning):
        del sandbox
        gc.collect()
    assert eventually(lambda: not processes(mark))
    del handle


def test_handle_outlives_its_sandbox() -> None:
    with Sandbox() as sandbox:
        handle = sandbox.start(["sleep", "1000"])
    del sandbox
    gc.collect()
    with pytest.raises(Exception, match="disappeared|cancelled|killed|SIGKILL") as raised:
        handle.wait(check=True)
    assert raised


def test_sandboxes_in_a_reference_cycle_are_freed(provider: str) -> None:
    with pytest.warns(ResourceWarning):
        cycle: list[Any] = [Sandbox(provider=provider)]
        cycle.append(cycle)
        del cycle
        gc.collect()
    runtime = _bridge.runtime()
    assert eventually(lambda: runtime.sessions == 0)


def _in_child(connection: Any, sandbox: Any, provider: str) -> None:
    try:
        sandbox.run(["true"])
    except ForkedError as error:
        connection.send(type(error).__name__)
    sandbox.close()
    with Sandbox(provider=provider) as own:
        connection.send(own.run_code("print(5)").stdout)


def test_forked_child_refuses_the_parents_sandbox_and_opens_its_own(provider: str) -> None:
    context = multiprocessing.get_context("fork")
    with Sandbox(provider=provider) as sandbox:
        receiver, sender = context.Pipe(False)
        child = context.Process(target=_in_child, args=(sender, sandbox, provider))
        child.start()
        assert receiver.poll(60) and receiver.recv() == "ForkedError"
        assert receiver.poll(60) and receiver.recv() == "5\n"
        child.join(60)
        assert child.exitcode == 0
        assert sandbox.run(["echo", "parent"]).stdout == "parent\n"


def test_fork_with_a_live_sandbox_ends_it_when_the_parent_closes_it(provider: str) -> None:
    mark = f"stockade-fork-{os.getpid()}"
    sandbox = Sandbox(provider=provider)
    sandbox.start(["sh", "-c", f"sleep 1000; : {mark}"])
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        sandbox.close()
        assert eventually(lambda: not processes(mark), 10)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _open_and_run(number: int) -> str:
    with Sandbox() as sandbox:
        return sandbox.run(["echo", str(number)]).stdout


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pool_of_processes_uses_sandboxes(method: str) -> None:
    with Sandbox() as sandbox:
        sandbox.run(["true"])
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(_open_and_run, range(4)) == ["0\n", "1\n", "2\n", "3\n"]


async def _twice(number: int) -> int:
    return number * 2


def _call_async_tool(number: int) -> str:
    code = f"import stockade_tools; print(stockade_tools.twice(number={number}))"
    with Sandbox(tools={"twice": _twice}) as sandbox:
        return sandbox.run_code(code, timeout=30).stdout


def test_children_of_a_fork_call_async_tools_as_their_parent_did() -> None:
    assert _call_async_tool(4) == "8\n"
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_call_async_tool, range(3)).get(120) == ["0\n", "2\n", "4\n"]


def test_sandbox_cannot_be_pickled() -> None:
    with Sandbox() as sandbox:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(sandbox)

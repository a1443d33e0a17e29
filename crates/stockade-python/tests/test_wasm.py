"""Sandboxes of the WebAssembly wall, in builds that have it. The suite ``hyperlight`` builds one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from agents import run_program
from conftest import eventually

import stockade
from stockade import AsyncSandbox, InvalidError, Sandbox, errors

WALL = stockade.wall_report("wasm")

pytestmark = pytest.mark.skipif(not WALL.usable, reason=str(WALL.reason))


def add(first: int, second: int = 2) -> int:
    """The sum of two numbers."""
    return first + second


def fail() -> None:
    """Fails."""
    raise KeyError("absent")


def test_code_runs_and_only_files_pass_to_the_next() -> None:
    with Sandbox(provider="wasm", envs={"COLOUR": "blue"}) as sandbox:
        assert sandbox.wall.provider == "wasm"
        code = "import os, sys; print(sys.platform, dict(os.environ))"
        assert sandbox.run_code(code).stdout == "wasi {'COLOUR': 'blue'}\n"
        assert sandbox.run_code("import builtins; builtins.leak = 1; open('kept', 'w')").ok
        code = "import builtins, os; print(hasattr(builtins, 'leak'), os.listdir())"
        assert sandbox.run_code(code).stdout == "False ['kept']\n"
        ended = sandbox.run_code("raise ValueError('no')")
        assert ended.exit_code == 1 and "ValueError: no" in ended.stderr


def test_first_use_is_logged_while_it_compiles_and_later_ones_are_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = "from stockade import Sandbox\nwith Sandbox(provider='wasm') as it:\n"
    code += "    print(it.run_code('print(1)').stdout, end='')\n"
    first, second = run_program(code, tmp_path), run_program(code, tmp_path)
    assert (first.stdout, second.stdout) == ("1\n", "1\n"), first.stderr + second.stderr
    assert "compiling CPython for this processor" in first.stderr
    assert "compiled CPython in" in first.stderr and second.stderr == ""


def test_abort_inside_is_survived_by_a_process_that_handles_crashes_itself(tmp_path: Path) -> None:
    code = """
import faulthandler
import stockade
with stockade.Sandbox(provider="wasm") as it:
    print(it.run_code("print(1)").stdout, end="")
    faulthandler.enable()
    try:
        it.run_code("import os; os.abort()")
    except stockade.TrappedError:
        print("trapped")
    print(it.run_code("print('still here')").stdout, end="")
"""
    ended = run_program(code, tmp_path)
    assert ended.stdout == "1\ntrapped\nstill here\n", ended.stderr


def test_functions_of_python_are_tools_inside() -> None:
    with Sandbox(provider="wasm", tools={"add": add, "fail": fail}) as sandbox:
        code = "print(add(1), call_tool('add', first=2, second=3))"
        assert sandbox.run_code(code).stdout == "3 5\n"
        code = "try: fail()\nexcept Exception as error: print(type(error).__name__, error)"
        assert "KeyError: 'absent'" in sandbox.run_code(code).stdout
        assert sandbox.events.summary()["tool_calls"] == 3


def test_files_are_shared_with_code_and_come_back() -> None:
    with Sandbox(provider="wasm") as sandbox:
        assert sandbox.files.write("notes/a.txt", "sent") == 4
        assert sandbox.run_code("print(open('notes/a.txt').read())").stdout == "sent\n"
        sandbox.checkpoint("first")
        sandbox.run_code("open('notes/a.txt', 'w').write('changed')")
        assert sandbox.files.read("notes/a.txt") == "changed"
        with sandbox.fork("first") as fork:
            assert fork.files.read("notes/a.txt") == "sent"
        sandbox.restore("first")
        assert sandbox.files.read("notes/a.txt") == "sent"


def test_what_the_wall_does_not_have_is_refused_by_name() -> None:
    with Sandbox(provider="wasm") as sandbox:
        with pytest.raises(InvalidError, match="the wasm wall starts no commands"):
            sandbox.run(["true"])
        assert sandbox.run_code("print('still here')").stdout == "still here\n"


def test_context_keeps_its_state_and_shows_values() -> None:
    with Sandbox(provider="wasm", tools={"add": add}) as sandbox, sandbox.context() as context:
        context.run("import math\ng = (n for n in range(3)); next(g)\nx = 20", check=True)
        assert context.run("next(g), x + 1, math.floor(2.5), add(1)").text == "(1, 21, 2, 3)"
        seen: list[str] = []
        code = "print('one')\ndisplay({'text/html': '<b>'}, raw=True)\nprint('three')\n[1]"
        ran = context.run(
            code,
            on_stdout=lambda text: seen.append(text.strip()),
            on_result=lambda result: seen.append(result.html or result.text or ""),
        )
        assert seen == ["one", "<b>", "three", "[1]"] and ran.ok
        failed = context.run("def f():\n    1 / 0\nf()")
        assert failed.error is not None and failed.is_alive
        assert (failed.error.name, failed.error.value) == ("ZeroDivisionError", "division by zero")
        assert "in f" in failed.error.traceback
        assert "NameError" in sandbox.run_code("print(x)").stderr
        assert sandbox.context("other").run("'x' in globals()").text == "False"


def test_context_that_ends_refuses_until_it_is_restarted() -> None:
    with Sandbox(provider="wasm") as sandbox:
        context = sandbox.context("first")
        context.run("x = 1")
        endings: list[tuple[str, type[errors.ExecutionError]]] = [
            ("import os; os.abort()", errors.TrappedError),
            ("while True: pass", errors.TimedOutError),
        ]
        for code, error in endings:
            with pytest.raises(error):
                context.run(code, timeout=2)
            with pytest.raises(errors.ContextEndedError, match="has ended"):
                context.run("1")
            context.restart()
            assert context.run("'x' in globals()").text == "False"
        with ThreadPoolExecutor(1) as busy:
            ended = busy.submit(context.run, "while True: pass")
            assert eventually(lambda: context.info().state == "busy")
            context.interrupt()
            ran = ended.result(20)
        assert ran.error is not None and not ran.is_alive
        assert ran.error.name == "UnexpectedEndOfExecution"
        assert "an interrupt ends it" in ran.error.value
        context.restart()
        assert context.run("x = 1\nx").text == "1"


def test_asyncio_and_threads_use_one_sandbox() -> None:
    async def work() -> None:
        async with AsyncSandbox(provider="wasm", tools={"add": add}) as sandbox:
            codes = [f"print(add({number}))" for number in range(4)]
            ended = await asyncio.gather(*(sandbox.run_code(code) for code in codes))
            assert [it.stdout for it in ended] == [f"{number + 2}\n" for number in range(4)]
            await sandbox.files.write("a.txt", "sent")
            assert (await sandbox.run_code("print(open('a.txt').read())")).stdout == "sent\n"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sandbox.run_code("while True: pass"), 1)
            assert (await sandbox.run_code("print('still here')")).stdout == "still here\n"

    asyncio.run(work())
    with Sandbox(provider="wasm") as sandbox, ThreadPoolExecutor(4) as threads:
        ended = threads.map(lambda number: sandbox.run_code(f"print({number})").stdout, range(4))
        assert list(ended) == [f"{number}\n" for number in range(4)]

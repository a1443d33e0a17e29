"""Contexts and forwarded ports."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from conftest import eventually

import stockade
from stockade import AsyncSandbox, Sandbox, errors


def test_context_keeps_an_open_file_a_generator_and_a_module(sandbox: Sandbox) -> None:
    with sandbox.context() as context:
        context.run("import math\nf = open('kept', 'w')\ng = (n for n in range(3)); next(g)", check=True)
        assert context.run("next(g), f.write('a'), math.floor(2.5)").text == "(1, 1, 2)"
        assert context.run("f.close(); open('kept').read()").text == "a"
    assert "NameError" in sandbox.run_code("print(g)").stderr
    assert sandbox.contexts() == []


def test_results_come_in_order_and_as_they_come(sandbox: Sandbox) -> None:
    context = sandbox.context("a")
    seen: list[str] = []
    code = "print('one')\ndisplay({'text/html': '<b>'}, raw=True)\nprint('three')\n[1]"
    ran = context.run(
        code,
        on_stdout=lambda text: seen.append(text.strip()),
        on_result=lambda result: seen.append(result.html or result.text or ""),
    )
    assert seen == ["one", "<b>", "three", "[1]"]
    assert (ran.stdout, ran.text, len(ran.results), ran.ok) == ("one\nthree\n", "[1]", 2, True)
    assert ran.result is not None and ran.result.mime_bundle() == {"text/plain": "[1]"}
    assert sandbox.context("a").run("1").execution_count == 2, "the same context by its name"


def test_results_show_themselves_in_a_notebook(sandbox: Sandbox) -> None:
    ran = sandbox.context().run("display({'image/png': 'aGk=', 'a/b': 1}, raw=True)")
    shown = ran.results[0]._repr_mimebundle_(include=None, exclude=None)
    assert shown == {"image/png": "aGk=", "a/b": 1}
    assert ran.results[0].png_bytes() == b"hi"


@pytest.mark.recipes
def test_notebook_of_ipython_shows_results_and_whole_calls(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell.instance()
    ran = sandbox.context().run("print('out')\ndisplay({'text/html': '<b>'}, raw=True)\n1 / 0")
    forms, _ = shell.display_formatter.format(ran.results[0])
    assert forms["text/html"] == "<b>"
    assert shell.display_formatter.format(ran) == ({}, {}), "it displays itself"
    shown = capsys.readouterr()
    assert "out" in shown.out and "ZeroDivisionError" in shown.err


def test_exceptions_have_name_value_and_traceback(sandbox: Sandbox) -> None:
    context = sandbox.context()
    ran = context.run("def f():\n    1 / 0\nf()")
    assert ran.error is not None and ran.exit_code == 1
    assert (ran.error.name, ran.error.value) == ("ZeroDivisionError", "division by zero")
    assert "in f" in ran.error.traceback
    with pytest.raises(errors.ExitError, match="ZeroDivisionError"):
        context.run("1 / 0", check=True)


def test_ended_context_refuses_until_it_is_restarted(sandbox: Sandbox) -> None:
    context = sandbox.context()
    context.run("x = 1")
    ran = context.run("import os; os._exit(3)")
    assert ran.error is not None and not ran.is_alive
    assert ran.error.name == "UnexpectedEndOfExecution"
    with pytest.raises(errors.ContextEndedError, match="exited with code 3"):
        context.run("x")
    assert context.info().state == "ended"
    context.restart()
    assert context.run("'x' in globals()").text == "False"


def test_interrupt_and_timeout_keep_the_state(sandbox: Sandbox) -> None:
    context = sandbox.context()
    context.run("import time; x = 41")
    started = time.monotonic()
    with pytest.raises(errors.TimedOutError):
        context.run("time.sleep(600)", timeout=0.5)
    interrupting = threading.Thread(
        target=lambda: eventually(lambda: context.info().state == "busy") and context.interrupt()
    )
    interrupting.start()
    ran = context.run("time.sleep(600)")
    interrupting.join()
    assert ran.error is not None and ran.error.name == "KeyboardInterrupt"
    assert time.monotonic() - started < 30
    assert context.run("x + 1").text == "42"


def test_other_languages_are_refused_by_name(sandbox: Sandbox) -> None:
    with pytest.raises(errors.InvalidError, match="cannot run javascript"):
        sandbox.context(language="javascript")
    with pytest.raises(errors.InvalidError, match="cannot run r"):
        sandbox.context().run("1", language="r")


def test_asyncio_runs_contexts_at_the_same_time_and_cancels_a_call(provider: str) -> None:
    async def main() -> None:
        async with AsyncSandbox(provider=provider) as sandbox:
            one, two = await sandbox.context("one"), await sandbox.context("two")
            answers = await asyncio.gather(one.run("x = 1\nx"), two.run("'x' in globals()"))
            assert [answer.text for answer in answers] == ["1", "False"]
            await one.run("import time")
            task = asyncio.create_task(one.run("time.sleep(600)"))
            while (await one.info()).state != "busy":
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await one.run("x")).text == "1"
            seen: list[str] = []

            async def told(text: str) -> None:
                seen.append(text)

            await one.run("print('live')", on_stdout=told)
            assert seen == ["live\n"]

    asyncio.run(main())


def test_web_server_inside_answers_through_its_port(sandbox: Sandbox) -> None:
    context = sandbox.context()
    context.run(
        "import http.server, threading\nopen('a.txt', 'w').write('hello')\n"
        "s = http.server.ThreadingHTTPServer(('127.0.0.1', 8000),"
        " http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=s.serve_forever, daemon=True).start()",
        check=True,
    )
    with sandbox.port(8000) as port:
        assert port.host == "127.0.0.1" and port.url == f"http://{port.address}"
        with urllib.request.urlopen(f"{port.url}/a.txt", timeout=20) as answer:
            assert answer.read() == b"hello"
        assert [one.address for one in sandbox.ports()] == [port.address]
    with pytest.raises(OSError):
        urllib.request.urlopen(port.url, timeout=20)


def test_port_is_refused_by_strict(provider: str) -> None:
    policy = {"limits": {"max_forwarded_ports": 0}}
    with Sandbox(policy, provider=provider) as sandbox:
        with pytest.raises(errors.PortDeniedError, match="max_forwarded_ports is 0"):
            sandbox.port(8000)
    with Sandbox(provider=provider) as sandbox:
        assert sandbox.port(8000).local_port > 0


def test_attached_sandbox_has_contexts_and_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOCKADE_STATE", str(tmp_path / "state"))
    words = [sys.executable, "-m", "stockade"]
    subprocess.run([*words, "create", "--name", "one"], check=True, env=os.environ)
    try:
        sandbox = Sandbox.attach("one")
        context = sandbox.context("a")
        assert context.run("x = [1]\nx").text == "[1]"
        code = ["code", "--context", "a", "one", "-"]
        ran = subprocess.run([*words, *code], input=b"x * 2", capture_output=True, check=True)
        assert ran.stdout == b"[1, 1]\n", "the command line has the same context"
        assert sandbox.port(8000).local_port > 0
        assert [info.name for info in sandbox.contexts()] == ["a"]
    finally:
        subprocess.run([*words, "rm", "-f", "one"], check=True)


def test_public_names_are_exported() -> None:
    for name in ("CodeContext", "AsyncCodeContext", "CodeExecution", "CodeError", "Result", "Port"):
        assert name in stockade.__all__

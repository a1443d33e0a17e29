"""What is there for asyncio is what is there without."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade import AsyncSandbox, Sandbox

PAIRS = ["Sandbox", "CommandHandle", "OutputStream", "CodeContext", "Files", "Events", "Port"]

# An asynchronous sandbox can be described before it is opened.
MORE = {"AsyncSandbox.open"}

# These return at once: nothing waits for a sandbox, a process or a file.
AT_ONCE = {"Sandbox.files", "Sandbox.events", "Sandbox.wall", "Sandbox.label"}
AT_ONCE |= {"CommandHandle.running", "Port.host", "Port.local_port", "Port.url"}


def surface(kind: Any) -> dict[str, Any]:
    """The public members of a class, with its own special method `__call__`."""
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") or name == "__call__" and name in vars(kind)
    }


def shape(member: Any) -> Any:
    """Parameters of a method, whatever its decorators; or the kind of another member."""
    function = getattr(member, "__func__", member)
    if not inspect.isfunction(function):
        return type(member).__name__
    return [(it.name, it.kind, it.default) for it in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", PAIRS)
def test_classes_for_asyncio_have_the_same_members_and_parameters(name: str) -> None:
    plain, mirrored = surface(getattr(stockade, name)), surface(getattr(stockade, f"Async{name}"))
    more = {own for own in mirrored if f"Async{name}.{own}" not in MORE}
    assert more == set(plain)
    for own, member in plain.items():
        assert shape(mirrored[own]) == shape(member), own
    if name == "Sandbox":
        assert shape(AsyncSandbox.__init__) == shape(Sandbox.__init__)


@pytest.mark.parametrize("name", PAIRS)
def test_methods_for_asyncio_are_awaited(name: str) -> None:
    kind = getattr(stockade, f"Async{name}")
    for own, member in surface(kind).items():
        function = getattr(member, "__func__", member)
        is_asynchronous = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        if not is_asynchronous:
            assert f"{name}.{own}" in AT_ONCE, own


def test_forks_are_opened_with_every_option() -> None:
    names = set(inspect.signature(Sandbox).parameters)
    with Sandbox() as sandbox:
        assert sandbox._options is not None and set(sandbox._options) == names
    receivers = {"on_stdout", "on_stderr", "on_denial"}
    options = AsyncSandbox()._options
    assert options is not None and set(options) | receivers == names


def test_loop_runs_while_records_sessions_and_checkpoints_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOCKADE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("STOCKADE_STATE", str(tmp_path / "state"))
    words = [sys.executable, "-m", "stockade", "create", "--name", "kept"]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    threads: list[int] = []
    for module, name in (("state", "checkpoints"), ("_stockade", "summary")):
        place = getattr(stockade, module)
        real = getattr(place, name)

        def noted(*arguments: Any, real: Any = real) -> Any:
            threads.append(threading.get_ident())
            return real(*arguments)

        monkeypatch.setattr(place, name, noted)

    async def work() -> None:
        attached = await AsyncSandbox.attach("kept")
        # Nothing is asked for it: the answer of the attachment has it.
        monkeypatch.setattr(stockade._bridge, "wait", None)
        assert attached.wall.provider == "native" and attached.wall.controls
        assert [it.name for it in await AsyncSandbox.list()] == ["kept"]
        async with AsyncSandbox() as sandbox:
            assert await sandbox.checkpoints() == []
            assert (await sandbox.events.summary())["tool_calls"] == 0
        await attached.kill()

    asyncio.run(work())
    assert len(threads) == 2 and threading.get_ident() not in threads

"""Python functions that code in a sandbox can call."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Callable, Optional

from . import errors, schema
from ._stockade import ToolCall

Tools = Mapping[str, Callable[..., Any]]
"""Functions by the names under which programs inside call them."""

Offered = tuple[str, str, str, Optional[str], Callable[[str, ToolCall], None]]


def offered(tools: Optional[Tools], loop: Optional[asyncio.AbstractEventLoop]) -> list[Offered]:
    """The tools of a sandbox for the extension module. Coroutine functions run in `loop`, or in a
    loop of their own."""
    return [_offer(name, function, loop) for name, function in (tools or {}).items()]


def _offer(
    name: str, function: Callable[..., Any], loop: Optional[asyncio.AbstractEventLoop]
) -> Offered:
    if not callable(function):
        raise errors.InvalidError(f"the tool {name!r} is not a function", "pass a function")
    shape = schema.of_function(name, function)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)
    )

    def run(text: str, call: ToolCall) -> None:
        arguments = shape.convert(json.loads(text))
        if is_async:
            _start(function(**arguments), call, loop or _own_loop())
        else:
            _answer(call, lambda: function(**arguments))

    output = None if shape.output is None else json.dumps(shape.output)
    return name, shape.description, json.dumps(shape.input), output, run


def _start(
    work: Coroutine[Any, Any, Any], call: ToolCall, loop: asyncio.AbstractEventLoop
) -> None:
    """Runs a coroutine in an event loop; the end of the call cancels it."""
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        call.fail("the event loop of the tool is closed")
        return
    if not call.when_cancelled(future.cancel):
        future.cancel()
    future.add_done_callback(lambda ended: _answer(call, ended.result))


def _answer(call: ToolCall, result: Callable[[], Any]) -> None:
    try:
        call.succeed(json.dumps(result(), default=schema.plain, allow_nan=False))
    except BaseException as error:  # noqa: BLE001 - a tool's exception ends only its call
        call.fail(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


_lock = threading.Lock()
_loop: Optional[asyncio.AbstractEventLoop] = None


def _own_loop() -> asyncio.AbstractEventLoop:
    """The event loop of coroutine functions that belong to no other loop."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="stockade-tools", daemon=True).start()
        return _loop


def _after_fork_in_child() -> None:
    """Forgets the parent's loop: its thread does not exist in this process."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork_in_child)

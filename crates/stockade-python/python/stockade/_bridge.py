"""The shared runtime of this process, and waiting for its operations."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from typing import Any, Optional, Protocol

from . import errors
from ._stockade import Failure, Operation, Runtime

# How long a cancelled task waits until its operation has ended.
_LAST_WAIT = 5.0

_lock = threading.Lock()
_runtime: Optional[Runtime] = None


class _Closable(Protocol):
    def _abandon(self) -> None:
        """Starts to close, without waiting."""


_open: weakref.WeakSet[Any] = weakref.WeakSet()


def runtime() -> Runtime:
    """The runtime of this process; the first call starts its threads."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
        return _runtime


def register(sandbox: _Closable) -> None:
    """Closes a sandbox at the exit of the interpreter, if it is still open then."""
    _open.add(sandbox)


def wait(operation: Operation) -> Any:
    """Waits for an operation on this thread."""
    try:
        return operation.wait()
    except Failure as failure:
        raise errors.of_failure(failure) from None


async def wait_async(operation: Operation) -> Any:
    """Waits for an operation in the running event loop. Cancelling the task cancels it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def notify() -> None:
        try:
            loop.call_soon_threadsafe(finish)
        except RuntimeError:
            # The loop is closed, so no task waits.
            pass

    if operation.call_when_done(notify):
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            operation.cancel()
            await asyncio.wait({done}, timeout=_LAST_WAIT)
            raise
    try:
        return operation.result()
    except Failure as failure:
        raise errors.of_failure(failure) from None


def _after_fork_in_child() -> None:
    """Forgets the parent's runtime: its threads do not exist in this process."""
    global _lock, _runtime, _open
    _lock, _runtime, _open = threading.Lock(), None, weakref.WeakSet()


def _at_exit() -> None:
    for sandbox in list(_open):
        sandbox._abandon()
    if _runtime is not None:
        _runtime.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)

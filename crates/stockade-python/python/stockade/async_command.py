"""Programs that run in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Optional, Union

from . import _bridge, _core, errors
from ._core import OnDenial, OnOutput, Unread
from ._stockade import Execution as Running
from .execution import Execution


class AsyncOutputStream:
    """One output stream of a running program; iterating yields its lines."""

    def __init__(self, handle: AsyncCommandHandle, stream: int) -> None:
        self._handle, self._stream = handle, stream
        self._line = ""

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            line, end, rest = self._line.partition("\n")
            if end:
                self._line = rest
                yield line + end
                continue
            found = await self._handle._next((self._stream,))
            if found is None:
                break
            self._line += found[1]
        if self._line:
            line, self._line = self._line, ""
            yield line

    async def read(self) -> str:
        """Everything up to the end of the stream."""
        return "".join([line async for line in self])


class AsyncCommandHandle:
    """A running program. In an ``async with`` block, the program is killed at the end of it.

    Tasks may share it: one can read `stdout` while another one reads `stderr`.
    """

    def __init__(self, running: Running, on_denial: Optional[OnDenial]) -> None:
        self._running = running
        self._on_denial = on_denial
        self._unread = Unread()
        self._receiving: Optional[asyncio.Task[None]] = None
        self._execution: Optional[Execution] = None
        self._problem: Optional[Exception] = None
        self.number: Optional[int] = None
        """The number of the program in its sandbox, as the record names it."""
        self.stdout = AsyncOutputStream(self, 1)
        """Its standard output, line by line."""
        self.stderr = AsyncOutputStream(self, 2)
        """Its standard error, line by line."""

    async def __aenter__(self) -> AsyncCommandHandle:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self._cancel()

    @property
    def running(self) -> bool:
        """Whether the program runs."""
        return not self._running.has_ended

    async def output(self) -> AsyncIterator[tuple[str, str]]:
        """The output as it arrives: pairs of ``"stdout"`` or ``"stderr"`` and text."""
        names = {1: "stdout", 2: "stderr"}
        while True:
            found = await self._next((1, 2))
            if found is None:
                return
            yield names[found[0]], found[1]

    async def send_stdin(self, data: Union[str, bytes]) -> None:
        """Sends input to a program that was started with ``stdin=True``."""
        sent = data.encode() if isinstance(data, str) else data
        await _bridge.wait_async(_core.started(lambda: self._running.write(sent)))

    async def close_stdin(self) -> None:
        """Ends the input."""
        await _bridge.wait_async(_core.started(self._running.close_input))

    async def send_signal(self, signal: int) -> None:
        """Sends a signal to the program."""
        await _bridge.wait_async(_core.started(lambda: self._running.signal(signal)))

    async def kill(self) -> None:
        """Kills the program and its descendants."""
        await _bridge.wait_async(_core.started(self._running.kill))

    async def wait(
        self,
        *,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        check: bool = False,
    ) -> Execution:
        """Waits until the program has ended and returns its execution.

        Raises an `ExecutionError` if it did not end by itself, and with `check` also if it failed.
        The receivers may be coroutine functions.
        """
        if self._execution is None:
            receivers = {"stdout": on_stdout, "stderr": on_stderr}
            try:
                async for name, text in self.output():
                    receive = receivers[name]
                    if receive:
                        await _core.settle(receive(text))
                await self._take()
            except BaseException:
                await self._cancel()
                raise
        assert self._execution is not None
        if self._problem is not None:
            raise self._problem
        return self._execution.check() if check else self._execution

    async def _take(self) -> None:
        """Takes the report and reports the denials."""
        report = await _bridge.wait_async(self._running.operation)
        self._execution, self._problem = _core.finish(report, check=False)
        for denial in self._execution.denials:
            if self._on_denial:
                await _core.settle(self._on_denial(denial))

    async def _cancel(self) -> None:
        """Kills the program and waits until it is gone, even if this task is cancelled again."""
        if self._execution is not None:
            return
        self._running.operation.cancel()
        await asyncio.shield(self._drain())

    async def _drain(self) -> None:
        try:
            async for _ in self.output():
                pass
            await self._take()
        except errors.StockadeError:
            # The sandbox is gone, and the program with it.
            pass

    async def _await_start(self) -> None:
        """Waits until the program has started; raises what prevented it."""
        try:
            self.number = await _bridge.wait_async(_core.started(self._running.started))
        except BaseException:
            await self._cancel()
            raise
        if self.number is None:
            await self.wait()

    async def _next(self, streams: tuple[int, ...]) -> Optional[tuple[int, str]]:
        """The next text of one of these streams, with its stream; None at their end."""
        while True:
            found = self._unread.take(streams)
            if found is not None or self._unread.is_complete:
                return found
            if self._receiving is None:
                self._receiving = asyncio.ensure_future(self._receive())
            # All readers wait for the same piece. The end of one of them does not lose it.
            await asyncio.shield(self._receiving)

    async def _receive(self) -> None:
        """Receives one piece of output, or the end."""
        try:
            self._unread.keep(await _bridge.wait_async(_core.started(self._running.next_output)))
        finally:
            self._receiving = None

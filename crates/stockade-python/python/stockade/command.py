"""Programs that run while the caller does something else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Optional, Union

from . import _bridge, _core, errors
from ._core import OnDenial, OnOutput, Unread
from ._stockade import Execution as Running
from .execution import Execution


class OutputStream:
    """One output stream of a running program; iterating yields its lines."""

    def __init__(self, handle: CommandHandle, stream: int) -> None:
        self._handle, self._stream = handle, stream
        self._line = ""

    def __iter__(self) -> Iterator[str]:
        while True:
            line, end, rest = self._line.partition("\n")
            if end:
                self._line = rest
                yield line + end
                continue
            found = self._handle._next((self._stream,))
            if found is None:
                break
            self._line += found[1]
        if self._line:
            line, self._line = self._line, ""
            yield line

    def read(self) -> str:
        """Everything up to the end of the stream."""
        return "".join(self)


class CommandHandle:
    """A running program. In a ``with`` block, the program is killed at the end of the block.

    Threads may share it: one can read `stdout` while another one reads `stderr`.
    """

    def __init__(self, running: Running, on_denial: Optional[OnDenial]) -> None:
        self._running = running
        self._on_denial = on_denial
        self._unread = Unread()
        # One reader receives for all of them: it keeps what others wait for, and wakes them.
        self._is_receiving = False
        self._arrived = threading.Condition()
        self._execution: Optional[Execution] = None
        self._problem: Optional[Exception] = None
        self.number: Optional[int] = None
        """The number of the program in its sandbox, as the record names it."""
        self.stdout = OutputStream(self, 1)
        """Its standard output, line by line."""
        self.stderr = OutputStream(self, 2)
        """Its standard error, line by line."""

    def __enter__(self) -> CommandHandle:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._cancel()

    @property
    def running(self) -> bool:
        """Whether the program runs."""
        return not self._running.has_ended

    def output(self) -> Iterator[tuple[str, str]]:
        """The output as it arrives: pairs of ``"stdout"`` or ``"stderr"`` and text."""
        names = {1: "stdout", 2: "stderr"}
        while True:
            found = self._next((1, 2))
            if found is None:
                return
            yield names[found[0]], found[1]

    def send_stdin(self, data: Union[str, bytes]) -> None:
        """Sends input to a program that was started with ``stdin=True``."""
        sent = data.encode() if isinstance(data, str) else data
        _bridge.wait(_core.started(lambda: self._running.write(sent)))

    def close_stdin(self) -> None:
        """Ends the input."""
        _bridge.wait(_core.started(self._running.close_input))

    def send_signal(self, signal: int) -> None:
        """Sends a signal to the program."""
        _bridge.wait(_core.started(lambda: self._running.signal(signal)))

    def kill(self) -> None:
        """Kills the program and its descendants."""
        _bridge.wait(_core.started(self._running.kill))

    def wait(
        self,
        *,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        check: bool = False,
    ) -> Execution:
        """Waits until the program has ended and returns its execution.

        Raises an `ExecutionError` if it did not end by itself, and with `check` also if it failed.
        """
        if self._execution is None:
            receivers = {"stdout": on_stdout, "stderr": on_stderr}
            try:
                for name, text in self.output():
                    receive = receivers[name]
                    if receive:
                        receive(text)
                self._take()
            except BaseException:
                self._cancel()
                raise
        assert self._execution is not None
        if self._problem is not None:
            raise self._problem
        return self._execution.check() if check else self._execution

    def _take(self) -> None:
        """Takes the report and reports the denials."""
        report = _bridge.wait(self._running.operation)
        self._execution, self._problem = _core.finish(report, check=False)
        for denial in self._execution.denials:
            if self._on_denial:
                self._on_denial(denial)

    def _cancel(self) -> None:
        """Kills the program and waits until it is gone."""
        if self._execution is not None:
            return
        self._running.operation.cancel()
        try:
            for _ in self.output():
                pass
            self._take()
        except errors.StockadeError:
            # The sandbox is gone, and the program with it.
            pass

    def _await_start(self) -> None:
        """Waits until the program has started; raises what prevented it."""
        try:
            self.number = _bridge.wait(_core.started(self._running.started))
        except BaseException:
            self._cancel()
            raise
        if self.number is None:
            self.wait()

    def _next(self, streams: tuple[int, ...]) -> Optional[tuple[int, str]]:
        """The next text of one of these streams, with its stream; None at their end."""
        while True:
            with self._arrived:
                found = self._unread.take(streams)
                if found is not None or self._unread.is_complete:
                    return found
                if self._is_receiving:
                    self._arrived.wait()
                    continue
                self._is_receiving = True
            self._receive()

    def _receive(self) -> None:
        """Receives one piece of output, or the end."""
        try:
            piece = _bridge.wait(_core.started(self._running.next_output))
            with self._arrived:
                self._unread.keep(piece)
        finally:
            with self._arrived:
                self._is_receiving = False
                self._arrived.notify_all()

"""Contexts: interpreters of a sandbox that keep their state between calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Optional

from . import _bridge, _core, errors, results
from ._core import Decoders, OnDenial, OnOutput
from ._stockade import Call, Failure, Operation, Session
from .policy import Context, fields
from .results import CodeExecution, Result

OnResult = Callable[[Result], Any]
"""Receives each value that code shows, as it comes."""


@dataclass(frozen=True)
class ContextInfo:
    """A context of a sandbox."""

    name: str
    """Its name."""
    language: str
    """Its language."""
    working_directory: Optional[str]
    """Where it started; None is the workspace."""
    state: str
    """``idle``, ``busy`` or ``ended``: then only a restart makes it usable."""
    why: Optional[str]
    """Why it has ended."""
    execution_count: int
    """How many calls it has executed since it started."""
    started: int
    """When its interpreter was started, in seconds since 1970."""


class _Shared:
    """What the two kinds of context share."""

    def __init__(self, session: Session, name: str, on_denial: Optional[OnDenial]) -> None:
        self._session, self._on_denial = session, on_denial
        self.name = name
        """Its name in the sandbox."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _call(
        self,
        code: str,
        language: str,
        envs: Optional[Mapping[str, str]],
        credentials: Sequence[str],
        timeout: Optional[float],
        context: Optional[Context],
        live: bool,
    ) -> Call:
        # Attached sandboxes refuse one.
        own = {} if context is None else {"context": fields(context)}
        try:
            return self._session.run_in_context(
                self.name,
                code.encode("utf-8", "surrogateescape"),
                language=language,
                envs=[(str(key), str(value)) for key, value in (envs or {}).items()],
                credentials=_core.names(credentials),
                timeout=timeout,
                live=live,
                **own,
            )
        except Failure as failure:
            raise errors.of_failure(failure) from None

    def _ask(self, act: str) -> Operation:
        return ask(self._session, act, self.name)


class CodeContext(_Shared):
    """An interpreter that keeps variables, modules, open files and generators between calls.

    Calls of one context wait for each other; those of several run at the same time. At the end of
    its ``with`` block a context is closed.
    """

    def __enter__(self) -> CodeContext:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def run(
        self,
        code: str,
        *,
        language: str = "python",
        envs: Optional[Mapping[str, str]] = None,
        credentials: Sequence[str] = (),
        timeout: Optional[float] = None,
        context: Optional[Context] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_result: Optional[OnResult] = None,
        check: bool = False,
    ) -> CodeExecution:
        """Runs code and returns what it wrote and showed.

        An exception of the code is in `CodeExecution.error`; with `check` it is raised. Raises an
        `ExecutionError` if the call did not end by itself. A call that is out of time is
        interrupted as by Ctrl-C, and the context stays; behind the wall `wasm` the context ends.

        Args:
            code: Python, also with ``await`` outside functions.
            language: Only ``python`` is accepted.
            envs: Environment variables during this call.
            credentials: The names in `envs` that may look like credentials, because they are passed
                to this call knowingly.
            timeout: How long it may run, in seconds, if that is less than the policy allows.
            context: Fields for the rules of the policy.
            on_stdout: Receives standard output as it comes.
            on_stderr: Receives standard error as it comes.
            on_result: Receives each value as it is shown.
            check: Whether to raise `ExitError` for an exception of the code.
        """
        live = bool(on_stdout or on_stderr or on_result)
        call = self._call(code, language, envs, credentials, timeout, context, live)
        decoders = Decoders()
        while live and (event := _bridge.wait(call.next_event())) is not None:
            _tell(event, decoders, on_stdout, on_stderr, on_result)
        return _ended(_bridge.wait(call.operation), check, self._on_denial)

    def interrupt(self) -> None:
        """Interrupts the call that runs, as Ctrl-C does; behind the wall `wasm` the context ends."""
        _bridge.wait(self._ask("interrupt"))

    def restart(self) -> None:
        """Ends the interpreter and starts a new one, without variables."""
        _bridge.wait(self._ask("restart"))

    def info(self) -> ContextInfo:
        """Its state."""
        return find(_bridge.wait(ask(self._session, "list", None)), self.name)

    def close(self) -> None:
        """Ends the interpreter. May be called again."""
        try:
            _bridge.wait(self._ask("remove"))
        except (errors.InvalidError, errors.ClosedError):
            # It is gone already, or its sandbox is.
            pass


class AsyncCodeContext(_Shared):
    """The same for asyncio. Cancelling a task that waits for a call interrupts the call."""

    async def __aenter__(self) -> AsyncCodeContext:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def run(
        self,
        code: str,
        *,
        language: str = "python",
        envs: Optional[Mapping[str, str]] = None,
        credentials: Sequence[str] = (),
        timeout: Optional[float] = None,
        context: Optional[Context] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_result: Optional[OnResult] = None,
        check: bool = False,
    ) -> CodeExecution:
        """Runs code and returns what it wrote and showed, as `CodeContext.run` does. The receivers
        may be coroutine functions."""
        live = bool(on_stdout or on_stderr or on_result)
        call = self._call(code, language, envs, credentials, timeout, context, live)
        decoders = Decoders()
        try:
            while live and (event := await _bridge.wait_async(call.next_event())) is not None:
                for told in _tell(event, decoders, on_stdout, on_stderr, on_result):
                    await _core.settle(told)
        except BaseException:
            call.operation.cancel()
            raise
        return _ended(await _bridge.wait_async(call.operation), check, self._on_denial)

    async def interrupt(self) -> None:
        """Interrupts the call that runs, as Ctrl-C does; behind the wall `wasm` the context ends."""
        await _bridge.wait_async(self._ask("interrupt"))

    async def restart(self) -> None:
        """Ends the interpreter and starts a new one, without variables."""
        await _bridge.wait_async(self._ask("restart"))

    async def info(self) -> ContextInfo:
        """Its state."""
        return find(await _bridge.wait_async(ask(self._session, "list", None)), self.name)

    async def close(self) -> None:
        """Ends the interpreter. May be called again."""
        try:
            await _bridge.wait_async(self._ask("remove"))
        except (errors.InvalidError, errors.ClosedError):
            # It is gone already, or its sandbox is.
            pass


def ask(
    session: Session,
    act: str,
    name: Optional[str],
    *,
    language: str = "python",
    cwd: Optional[str] = None,
    envs: Optional[Mapping[str, str]] = None,
    credentials: Sequence[str] = (),
) -> Operation:
    """Starts a request about contexts."""
    pairs = [(str(key), str(value)) for key, value in (envs or {}).items()]
    try:
        return session.contexts(
            act,
            name,
            language=language,
            cwd=cwd,
            envs=pairs,
            credentials=_core.names(credentials),
        )
    except Failure as failure:
        raise errors.of_failure(failure) from None


def infos(answer: str) -> list[ContextInfo]:
    """The contexts of an answer."""
    return [ContextInfo(**view) for view in json.loads(answer)]


def find(answer: str, name: str) -> ContextInfo:
    """One context of an answer."""
    for info in infos(answer):
        if info.name == name:
            return info
    raise errors.InvalidError(f"the sandbox has no context {name}", "list them: sandbox.contexts()")


def existing(answer: str, name: Optional[str], language: str) -> bool:
    """Whether an answer has a context that can be used for a language."""
    return language == "python" and any(info.name == name for info in infos(answer))


def _tell(
    event: tuple[int, Any],
    decoders: Decoders,
    on_stdout: Optional[OnOutput],
    on_stderr: Optional[OnOutput],
    on_result: Optional[OnResult],
) -> list[Any]:
    """Calls the receiver of an event; returns what it returned."""
    stream, content = event
    if stream == 0:
        return [on_result(results.of_view(json.loads(content)))] if on_result else []
    receiver = on_stdout if stream == 1 else on_stderr
    text = decoders.decode(stream, content)
    return [receiver(text)] if receiver and text else []


def _ended(
    report: tuple[str, bytes, bytes], check: bool, on_denial: Optional[OnDenial]
) -> CodeExecution:
    execution, problem = results.finish(report, check)
    for denial in execution.denials if on_denial else ():
        assert on_denial is not None
        on_denial(denial)
    if problem is not None:
        raise problem
    return execution

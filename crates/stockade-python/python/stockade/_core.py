"""What the two kinds of sandbox share: arguments for the extension module, and results from it."""

from __future__ import annotations

import asyncio
import codecs
import inspect
import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from . import _bridge, errors, tools as tool_functions
from ._stockade import Execution as Running
from ._stockade import Failure, Operation, Session
from .azure import Azure
from .execution import Denial, Execution, of_report
from .policy import Context, PolicyLike, fields, policy_of
from .tools import Tools

Path = Union[str, "os.PathLike[str]"]
Command = Union[str, Sequence[str]]
"""A program with its arguments, or a command line for ``sh``."""
OnOutput = Callable[[str], Any]
"""Receives output as it arrives."""
OnDenial = Callable[[Denial], Any]
"""Receives each denial."""


def open_session(
    policy: PolicyLike,
    *,
    provider: Optional[str],
    tools: Optional[Tools],
    envs: Optional[Mapping[str, str]],
    root: Optional[Path],
    image: Optional[str],
    docker_url: Optional[str],
    runtime: Optional[str],
    azure: Optional[Azure],
    credentials: Sequence[str],
    context: Optional[Context],
    python: Optional[Path],
    record: Union[bool, Path],
    loop: Optional[asyncio.AbstractEventLoop],
) -> Operation:
    """Starts to open a sandbox."""
    checked = policy_of(policy, list(tools or {}))
    place: Optional[tuple[Optional[str]]] = None
    if record is True:
        place = (None,)
    elif record is not False:
        place = (os.path.abspath(record),)
    try:
        return Session.open(
            _bridge.runtime(),
            checked._checked,
            provider=provider,
            root=None if root is None else os.path.abspath(root),
            image=image,
            container=(docker_url, runtime),
            azure=azure,
            envs=_pairs(envs),
            credentials=names(credentials),
            tools=tool_functions.offered(tools, loop),
            record=place,
            python=None if python is None else os.fspath(python),
            protected=list(checked._files),
            context=fields(context),
        )
    except Failure as failure:
        raise errors.of_failure(failure) from None


def start_command(
    session: Session,
    command: Command,
    *,
    envs: Optional[Mapping[str, str]],
    cwd: Optional[str],
    timeout: Optional[float],
    stdin: Union[str, bytes, None, bool],
    live: bool,
    credentials: Sequence[str] = (),
    context: Optional[Context] = None,
) -> Running:
    """Starts a command."""
    argv = ["sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
    if not argv:
        raise errors.InvalidError("the command names no program", "pass at least one word")
    own = (envs, credentials, cwd, timeout, stdin, live, context)
    return _start(session, argv, None, None, "", *own)


def start_code(
    session: Session,
    code: str,
    *,
    language: str,
    arguments: Sequence[str],
    envs: Optional[Mapping[str, str]],
    cwd: Optional[str],
    timeout: Optional[float],
    stdin: Union[str, bytes, None, bool],
    live: bool,
    credentials: Sequence[str] = (),
    context: Optional[Context] = None,
) -> Running:
    """Starts code."""
    name = {"python": "main.py", "bash": "main.sh", "javascript": "main.js"}.get(language, "main")
    argv = [str(word) for word in arguments]
    sent = code.encode()
    own = (envs, credentials, cwd, timeout, stdin, live, context)
    return _start(session, argv, language, sent, name, *own)


def _start(
    session: Session,
    argv: list[str],
    language: Optional[str],
    code: Optional[bytes],
    name: str,
    envs: Optional[Mapping[str, str]],
    credentials: Sequence[str],
    cwd: Optional[str],
    timeout: Optional[float],
    stdin: Union[str, bytes, None, bool],
    live: bool,
    context: Optional[Context],
) -> Running:
    # Attached sessions refuse one.
    own = {} if context is None else {"context": fields(context)}
    sent = stdin if isinstance(stdin, (str, bytes)) else None
    try:
        return session.execute(
            argv,
            language=language,
            code=code,
            name=name,
            envs=_pairs(envs),
            credentials=names(credentials),
            cwd=cwd,
            timeout=timeout,
            stdin=sent.encode() if isinstance(sent, str) else sent,
            interactive=stdin is True,
            live=live,
            **own,
        )
    except Failure as failure:
        raise errors.of_failure(failure) from None


def started(act: Callable[[], Operation]) -> Operation:
    """Starts an operation; failures before its start become exceptions of the package."""
    try:
        return act()
    except Failure as failure:
        raise errors.of_failure(failure) from None


def finish(report: tuple[str, bytes, bytes], check: bool) -> tuple[Execution, Optional[Exception]]:
    """The execution of a report, and the exception that the caller raises for it."""
    execution = of_report(report)
    problem: Optional[Exception] = errors.of_execution(execution)
    if problem is None and check:
        try:
            execution.check()
        except errors.ExitError as error:
            problem = error
    return execution, problem


class Decoders:
    """Decodes the two output streams of a program, piece by piece."""

    def __init__(self) -> None:
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders = {1: make(errors="replace"), 2: make(errors="replace")}

    def decode(self, stream: int, piece: bytes) -> str:
        """The text that is complete after this piece."""
        return self._decoders[stream].decode(piece)

    def rest(self, stream: int) -> str:
        """What an incomplete character at the end of the stream becomes."""
        return self._decoders[stream].decode(b"", final=True)


class Unread:
    """The output of a program that has arrived and that no reader has taken yet."""

    def __init__(self) -> None:
        self._decoders = Decoders()
        self._waiting: dict[int, deque[str]] = {1: deque(), 2: deque()}
        self.is_complete = False
        """Whether nothing more arrives."""

    def keep(self, piece: Optional[tuple[int, bytes]]) -> None:
        """Keeps what arrived; None is the end of both streams."""
        if piece is not None:
            self._add(piece[0], self._decoders.decode(*piece))
            return
        for stream in self._waiting:
            self._add(stream, self._decoders.rest(stream))
        self.is_complete = True

    def take(self, streams: Sequence[int]) -> Optional[tuple[int, str]]:
        """The next text of one of these streams, with its stream; None if nothing waits."""
        for stream in streams:
            if self._waiting[stream]:
                return stream, self._waiting[stream].popleft()
        return None

    def _add(self, stream: int, text: str) -> None:
        if text:
            self._waiting[stream].append(text)


def names(credentials: Sequence[str]) -> list[str]:
    """The names of credentials. One string is a mistake: it would be a name per letter."""
    if isinstance(credentials, str):
        message = "credentials is a string, not a list of names"
        raise errors.InvalidError(message, "pass a list: credentials=[NAME]")
    return [str(name) for name in credentials]


def _pairs(envs: Optional[Mapping[str, str]]) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in (envs or {}).items()]


async def settle(result: Any) -> None:
    """Waits for what a coroutine function returned; other results are complete."""
    if inspect.isawaitable(result):
        await result

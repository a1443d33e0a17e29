"""Sandboxes that another process holds, such as those of ``stockade create``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Optional

from . import _bridge, _stockade, errors
from ._stockade import Failure, Operation, Remote


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox that lives in a process of its own."""

    name: str
    """Its name, as ``Sandbox.attach`` takes it."""
    supervisor: int
    """The process that holds it."""
    created: int
    """When it was created, in seconds since 1970."""


def listed() -> list[SandboxInfo]:
    """The sandboxes of this user that live in processes of their own."""
    try:
        views = json.loads(_stockade.sessions())
    except Failure as failure:
        raise errors.of_failure(failure) from None
    return [SandboxInfo(**view) for view in views]


def _forked(session: str, name: Optional[str]) -> str:
    """Forks a session that another process holds; the name of the new one, which has a process of
    its own too."""
    start = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    argv = [sys.executable, start, "--json", "fork", session]
    if name is not None:
        argv += ["--from", name]
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        answer = json.loads(ended.stdout)
        if ended.returncode == 0:
            return str(answer["sessions"][0])
        raise errors.StateError(answer["error"]["message"], answer["error"]["remedy"])
    except (ValueError, KeyError):
        message = f"cannot fork {session}: {ended.stderr.decode(errors='replace').strip()}"
        raise errors.StateError(message, "see which sessions exist: Sandbox.list()") from None


class _Attached:
    """An attached session, with the methods of one that this process holds."""

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            self._remote = Remote(_bridge.runtime(), name)
        except Failure as failure:
            raise errors.of_failure(failure) from None

    def execute(self, argv: list[str], **options: Any) -> _stockade.Execution:
        if "context" in options:
            message = "an attached sandbox judges by the context of the process that holds it"
            raise errors.InvalidError(message, "leave context out")
        return self._remote.execute(argv, **options)

    def run_in_context(self, name: str, code: bytes, **options: Any) -> _stockade.Call:
        if "context" in options:
            message = "an attached sandbox judges by the context of the process that holds it"
            raise errors.InvalidError(message, "leave context out")
        return self._remote.run_in_context(name, code, **options)

    def contexts(self, act: str, name: Optional[str], **options: Any) -> Operation:
        return self._remote.contexts(act, name, **options)

    def port(self, act: str, port: int, listen: Optional[str]) -> Operation:
        return self._remote.port(act, port, listen)

    def inspect(self) -> Operation:
        return self._remote.inspect()

    def keep(self, inspected: str) -> None:
        """Keeps what stays as it is while the sandbox lives."""
        view = json.loads(inspected)
        self._plan = json.dumps({name: view[name] for name in ("provider", "isolation", "controls")})

    def plan(self) -> str:
        return self._plan

    def usage(self) -> Operation:
        return self._remote.usage()

    def pause(self) -> Operation:
        return self._remote.pause()

    def resume(self) -> Operation:
        return self._remote.resume()

    def end(self) -> Operation:
        return self._remote.remove()

    def checkpoint(self, reference: str) -> Operation:
        # Its label is the name of the session, which the supervisor puts before the name itself.
        return self._remote.checkpoint(reference.partition("/")[2])

    def restore(self, reference: Optional[str], any_policy: bool) -> Operation:
        # By its name alone it may also be one of a session that this one was forked from.
        own = None if reference is None else reference.removeprefix(f"{self._name}/")
        return self._remote.restore(own, any_policy)

    def identity(self) -> tuple[None, None]:
        message = "the process that holds an attached sandbox keeps its record"
        raise errors.UnavailableError(message, "read it with `stockade audit show`")

    def files(self) -> _stockade.Files:
        return self._remote.files()

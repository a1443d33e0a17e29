"""Sandboxes that another process holds, such as those of ``stockade create``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

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


class _Attached:
    """An attached session, with the methods of one that this process holds."""

    def __init__(self, name: str) -> None:
        try:
            self._remote = Remote(_bridge.runtime(), name)
        except Failure as failure:
            raise errors.of_failure(failure) from None

    def execute(self, argv: list[str], **options: Any) -> _stockade.Execution:
        if "context" in options:
            message = "an attached sandbox judges by the context of the process that holds it"
            raise errors.InvalidError(message, "leave context out")
        return self._remote.execute(argv, **options)

    def inspect(self) -> Operation:
        return self._remote.inspect()

    def plan(self) -> str:
        view = json.loads(_bridge.wait(self._remote.inspect()))
        plan = {name: view[name] for name in ("provider", "isolation", "controls")}
        return json.dumps(plan)

    def usage(self) -> Operation:
        return self._remote.usage()

    def pause(self) -> Operation:
        return self._remote.pause()

    def resume(self) -> Operation:
        return self._remote.resume()

    def end(self) -> Operation:
        return self._remote.remove()

    def identity(self) -> tuple[None, None]:
        message = "the process that holds an attached sandbox keeps its record"
        raise errors.UnavailableError(message, "read it with `stockade audit show`")

    def files(self) -> Any:
        message = "the files of an attached sandbox are not reachable from here"
        raise errors.UnavailableError(message, "run a program that reads or writes them")

"""The results of programs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional

from . import errors


@dataclass(frozen=True)
class Denial:
    """Something that the policy or the wall refused."""

    control: str
    """The control that refused."""
    rule: str
    """The line or built-in rule that decided."""
    target: str
    """What was refused."""
    why: str
    """Why."""
    how_to_allow: str
    """The change of the policy that would allow it."""


@dataclass(frozen=True)
class Usage:
    """The resources that a program or a sandbox used; None if the kernel does not count them."""

    cpu_ms: Optional[int] = None
    """Processor time in milliseconds."""
    memory_peak_bytes: Optional[int] = None
    """The most memory at once."""
    tasks_peak: Optional[int] = None
    """The most tasks at once."""
    tool_calls: int = 0
    """The number of tool calls."""


@dataclass(frozen=True)
class Execution:
    """A program that has ended."""

    outcome: str
    """How it ended: ``exited``, ``signaled``, ``timed_out``, ``denied`` and so on."""
    exit_code: Optional[int]
    """Its exit code; None if it did not exit by itself."""
    stdout_bytes: bytes = field(repr=False)
    """Its standard output."""
    stderr_bytes: bytes = field(repr=False)
    """Its standard error."""
    signal: Optional[str] = None
    """The name of the signal that killed it."""
    limit: Optional[str] = None
    """The key of the limit that ended it."""
    not_started: Optional[str] = None
    """Why it could not be executed."""
    denials: tuple[Denial, ...] = ()
    """What was denied while it ran."""
    limits_hit: tuple[str, ...] = ()
    """The keys of limits that refused something without ending it."""
    dropped_bytes: int = 0
    """How many bytes of output came after the limit for output."""
    stdout_dropped_bytes: int = 0
    """How many of them were standard output."""
    start_ms: int = 0
    """From the request to the start of the program."""
    duration_ms: int = 0
    """From the start of the program to its end."""
    usage: Usage = Usage()
    """The resources it used."""
    provider: Optional[str] = None
    """The wall behind which it ran."""

    @property
    def stdout(self) -> str:
        """Its standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Its standard error as text; bytes that are not UTF-8 are replaced."""
        return self.stderr_bytes.decode(errors="replace")

    @property
    def ok(self) -> bool:
        """Whether it exited with code 0."""
        return self.exit_code == 0

    def check(self) -> Execution:
        """Returns itself, or raises ExitError if the program failed."""
        if self.ok:
            return self
        ended = f"exited with code {self.exit_code}"
        if self.signal is not None:
            ended = f"was killed by {self.signal}"
        tail = self.stderr.strip().rsplit("\n", 1)[-1][:400]
        message = f"the program {ended}" + (f": {tail}" if tail else "")
        raise errors.ExitError(message, "see execution.stderr", self)


def of_report(report: tuple[str, bytes, bytes]) -> Execution:
    """The execution of a report of the extension module."""
    text, stdout, stderr = report
    view: dict[str, Any] = json.loads(text)
    signal, missing, used = view["signal"], view["not_started"], view["usage"]
    kept = view["output"]
    return Execution(
        outcome=view["outcome"],
        exit_code=view["exit_code"],
        stdout_bytes=stdout,
        stderr_bytes=stderr,
        signal=signal["name"] if signal else None,
        limit=view["limit"],
        not_started=f"cannot execute {missing['program']}: {missing['error']}" if missing else None,
        denials=tuple(Denial(**denial) for denial in view["denials"]),
        limits_hit=tuple(view["limits_hit"]),
        dropped_bytes=kept["stdout"]["dropped_bytes"] + kept["stderr"]["dropped_bytes"],
        stdout_dropped_bytes=kept["stdout"]["dropped_bytes"],
        start_ms=view["start_ms"],
        duration_ms=view["duration_ms"],
        usage=Usage(**used),
        provider=view["provider"],
    )

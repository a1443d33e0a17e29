"""Providers of ``agent_sandbox`` for the tests."""

from __future__ import annotations

from typing import Any

from agent_sandbox import DockerSandboxProvider, IsolationRuntime, NonoSandboxProvider


def make(wall: str, **options: Any) -> Any:
    """The provider whose sessions are behind a wall."""
    if wall == "native":
        return NonoSandboxProvider(**options)
    # The other runtimes have tests of their own, and starting one takes longer.
    return DockerSandboxProvider(**{"runtime": IsolationRuntime.RUNC, **options})

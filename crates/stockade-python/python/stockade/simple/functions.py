"""Code and commands with one call each."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Union

from .. import errors
from ..sandbox import Sandbox as _Wall

# What a command of `safe_shell` may compute.
_SHELL_CPU_SECONDS = 2


class SubprocessSandbox:
    """Runs Python code behind the native wall, each time in a sandbox of its own."""

    def __init__(self, max_cpu: float = 1, max_memory_mb: int = 256, timeout: float = 10) -> None:
        """`max_cpu` counts processors, `timeout` seconds."""
        self.max_cpu, self.max_memory_mb, self.timeout = max_cpu, max_memory_mb, timeout

    def run(self, code: str) -> tuple[str, str]:
        """The output and the errors of code; ``("", "Timeout")`` if its time was over."""
        limits = {"max_cpu": self.max_cpu, "max_memory_mb": self.max_memory_mb}
        policy = {"name": "simple", "defaults": {**limits, "timeout_seconds": self.timeout}}
        with _Wall(policy, provider="native") as wall:
            return _texts(lambda: wall.run_code(code), "Timeout")


def run_code_in_sandbox(code: str) -> str:
    """The output of Python code in a container with 256 MB and half a processor; ``Error: …`` if
    the code fails or no container can be made."""
    limits = {"max_cpu": 0.5, "max_memory_mb": 256, "timeout_seconds": 30}
    try:
        with _Wall({"name": "simple", "defaults": limits}, provider="docker") as wall:
            ended = wall.run_code(code)
    except errors.StockadeError as error:
        return f"Error: {error}"
    return ended.stdout if ended.ok else f"Error: {ended.stderr.strip()}"


def safe_shell(
    command: Union[str, Sequence[str]], timeout: float = 5, max_memory_mb: int = 64
) -> tuple[str, str]:
    """The output and the errors of one command behind the native wall, with two seconds of a
    processor. No shell reads it: ``;``, ``|`` and ``$`` are ordinary characters. Its time over, the
    result is ``("", "Command timed out")``."""
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    policy = {
        "name": "simple",
        "defaults": {"max_memory_mb": max_memory_mb, "timeout_seconds": timeout},
        "limits": {"max_cpu_seconds": _SHELL_CPU_SECONDS},
    }
    with _Wall(policy, provider="native") as wall:
        return _texts(lambda: wall.run(words), "Command timed out")


def _texts(run: Any, timed_out: str) -> tuple[str, str]:
    """The output and the errors of a program, or why it has none."""
    try:
        ended = run()
    except errors.TimedOutError:
        return "", timed_out
    except errors.ExecutionError as error:
        return error.execution.stdout, error.execution.stderr + error.message
    return ended.stdout, ended.stderr

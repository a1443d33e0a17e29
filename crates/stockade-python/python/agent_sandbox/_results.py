"""The ends of programs, as `SandboxResult` describes them."""

from __future__ import annotations

import signal
from typing import Optional

from stockade import Execution

from .sandbox_provider import ExecutionStatus, SandboxResult

MARKER = "\n[...output truncated at byte limit]\n"
"""Stands at the end of output that was longer than `SandboxConfig.output_max_bytes`."""

# The exit codes of programs that did not exit by themselves, as those of the command line.
_CODES = {"timed_out": 124, "out_of_memory": 137, "limit_exceeded": 122, "not_started": 127}
_CODES.update(cancelled=130, engine_lost=125)


def result_of(execution: Execution, timeout: float, memory_mb: float) -> SandboxResult:
    """The result of a program that has ended; the limits are those that applied."""
    stdout, stderr = execution.stdout, execution.stderr
    if execution.stdout_dropped_bytes:
        stdout += MARKER
    if execution.dropped_bytes > execution.stdout_dropped_bytes:
        stderr += MARKER
    if execution.not_started:
        stderr += execution.not_started
    reason = _kill_reason(execution, timeout, memory_mb)
    return SandboxResult(
        success=execution.ok,
        exit_code=_exit_code(execution),
        stdout=stdout,
        stderr=stderr,
        duration_seconds=execution.duration_ms / 1000,
        killed=reason is not None,
        kill_reason=reason or "",
    )


def status_of(execution: Execution) -> ExecutionStatus:
    """How an execution ended."""
    if execution.outcome == "cancelled":
        return ExecutionStatus.CANCELLED
    return ExecutionStatus.COMPLETED if execution.ok else ExecutionStatus.FAILED


def _exit_code(execution: Execution) -> int:
    if execution.exit_code is not None:
        return execution.exit_code
    if execution.signal is not None:
        known = getattr(signal, execution.signal, None)
        return 128 + known if known else -1
    return _CODES.get(execution.outcome, -1)


def _kill_reason(execution: Execution, timeout: float, memory_mb: float) -> Optional[str]:
    """Why Stockade ended a program; None if it did not."""
    if execution.outcome == "timed_out":
        return f"Execution exceeded timeout of {timeout}s"
    if execution.outcome == "out_of_memory":
        return f"Execution exceeded memory limit of {memory_mb:g} MB"
    if execution.outcome == "limit_exceeded":
        return f"Execution exceeded {execution.limit}"
    if execution.outcome == "cancelled":
        return "Execution was cancelled"
    if execution.outcome in ("engine_lost", "trapped"):
        return "The sandbox ended"
    return None

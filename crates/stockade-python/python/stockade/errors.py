"""The exceptions of Stockade: one class per kind.

Every exception says what failed and why; ``remedy`` says what to do next.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Optional

from ._stockade import Failure

if TYPE_CHECKING:
    from .execution import Denial, Execution

__all__ = [
    "ArchiveError",
    "BusyError",
    "CancelledExecutionError",
    "ClosedError",
    "ContextEndedError",
    "CrossesMountsError",
    "DeniedError",
    "DirectoryError",
    "ExecutionError",
    "ExistsError",
    "ExitError",
    "FileError",
    "FilePermissionError",
    "ForkedError",
    "IncompleteError",
    "InputClosedError",
    "InternalError",
    "InterruptedCallError",
    "InvalidError",
    "LimitExceededError",
    "LostError",
    "NameTooLongError",
    "NotDirectoryError",
    "NotEmptyError",
    "NotFoundError",
    "NotStartedError",
    "OutOfMemoryError",
    "PolicyError",
    "PortDeniedError",
    "QuotaError",
    "RecordError",
    "SandboxLostError",
    "SpecialFileError",
    "StateError",
    "StockadeError",
    "TimedOutError",
    "TooLargeError",
    "TrappedError",
    "TraversalError",
    "UnavailableError",
    "UnenforceableError",
]


class StockadeError(Exception):
    """Stockade could not do what was asked."""

    def __init__(self, message: str, remedy: str = "", details: Any = None) -> None:
        super().__init__(message if not remedy else f"{message}; {remedy}")
        self.message = message
        """What failed, and why."""
        self.remedy = remedy
        """What to do next."""
        self.details = details
        """More about the failure, as plain data; None for most kinds."""


class InvalidError(StockadeError, ValueError):
    """A value that the caller passed cannot be used."""


class PolicyError(StockadeError, ValueError):
    """A policy is not valid; ``details`` lists its mistakes with their positions."""


class UnavailableError(StockadeError):
    """The wall cannot be built on this host, or is not part of this version."""


class UnenforceableError(StockadeError):
    """The wall cannot enforce the policy; ``details`` names each control."""


class BusyError(StockadeError):
    """The sandbox runs as many programs as it may; the same call succeeds later."""


class ContextEndedError(StockadeError):
    """The interpreter of a context has ended; `CodeContext.restart` starts a new one."""


class PortDeniedError(StockadeError):
    """The policy does not allow to forward a port, or no more of them."""


class LostError(StockadeError):
    """The sandbox disappeared while it was in use."""


class ClosedError(StockadeError):
    """The sandbox is closed."""


class ForkedError(StockadeError):
    """The object belongs to the process from which this one was forked."""


class StateError(StockadeError):
    """A checkpoint cannot be made, found, restored or applied."""


class RecordError(StockadeError):
    """The record of the sandbox cannot be written or read."""


class InputClosedError(StockadeError, BrokenPipeError):
    """The program does not read its standard input any more."""


class InterruptedCallError(StockadeError):
    """The operation was cancelled."""


class InternalError(StockadeError):
    """Stockade itself failed."""


class FileError(StockadeError, OSError):
    """An operation on a file inside failed."""


class NotFoundError(FileError, FileNotFoundError):
    """Nothing has this name."""


class ExistsError(FileError, FileExistsError):
    """Something has this name already."""


class NotDirectoryError(FileError, NotADirectoryError):
    """A component of the path is not a directory."""


class DirectoryError(FileError, IsADirectoryError):
    """The path is a directory."""


class NotEmptyError(FileError):
    """The directory has entries."""


class TraversalError(FileError):
    """The path has ``..``, too many links, or changed while it was used."""


class FilePermissionError(FileError, PermissionError):
    """The sandbox has no permission."""


class QuotaError(FileError):
    """The sandbox's space for files is full."""


class TooLargeError(FileError):
    """A file or a list is larger than allowed."""


class NameTooLongError(FileError):
    """The name or the path is too long."""


class SpecialFileError(FileError):
    """The file is a device, FIFO or socket."""


class CrossesMountsError(FileError):
    """Source and destination are in different file systems."""


class ArchiveError(FileError):
    """An archive is damaged or has an entry that is not allowed."""


class IncompleteError(FileError):
    """The content ended early."""


class ExecutionError(StockadeError):
    """A program did not end by itself, or it failed and ``check`` was set."""

    def __init__(self, message: str, remedy: str, execution: Execution) -> None:
        super().__init__(message, remedy)
        self.execution = execution
        """The execution, with the output so far."""


class DeniedError(ExecutionError):
    """A rule of the policy denied the program."""

    def __init__(self, denial: Denial, execution: Execution) -> None:
        message = f"the policy denied {denial.target}: {denial.why}"
        super().__init__(message, denial.how_to_allow, execution)
        self.denial = denial
        """What was denied, by which rule, why, and how to allow it."""


class TimedOutError(ExecutionError, TimeoutError):
    """The program exceeded its time limit."""


class LimitExceededError(ExecutionError):
    """Stockade ended the program because of a limit."""

    def __init__(self, message: str, remedy: str, execution: Execution, limit: str) -> None:
        super().__init__(message, remedy, execution)
        self.limit = limit
        """The key of the limit in a policy."""


class OutOfMemoryError(LimitExceededError):
    """The kernel killed the program because its memory ran out."""


class NotStartedError(ExecutionError):
    """The program could not be executed, for example because it does not exist."""


class TrappedError(ExecutionError):
    """The wall's runtime stopped the program because of an illegal operation."""


class CancelledExecutionError(ExecutionError):
    """The caller stopped the program."""


class SandboxLostError(ExecutionError, LostError):
    """The sandbox disappeared while the program ran."""


class ExitError(ExecutionError):
    """The program exited with a code other than 0, or a signal killed it."""


_KINDS: dict[str, type[StockadeError]] = {
    "invalid": InvalidError,
    "policy": PolicyError,
    "unavailable": UnavailableError,
    "unenforceable": UnenforceableError,
    "busy": BusyError,
    "lost": LostError,
    "closed": ClosedError,
    "context_ended": ContextEndedError,
    "port_denied": PortDeniedError,
    "forked": ForkedError,
    "record": RecordError,
    "input_closed": InputClosedError,
    "cancelled": InterruptedCallError,
    "internal": InternalError,
    "other": FileError,
    "not_found": NotFoundError,
    "exists": ExistsError,
    "state": StateError,
    "not_a_directory": NotDirectoryError,
    "is_a_directory": DirectoryError,
    "not_empty": NotEmptyError,
    "traversal": TraversalError,
    "permission": FilePermissionError,
    "quota": QuotaError,
    "too_large": TooLargeError,
    "name_too_long": NameTooLongError,
    "special_file": SpecialFileError,
    "crosses_mounts": CrossesMountsError,
    "archive": ArchiveError,
    "incomplete": IncompleteError,
}


def of_failure(failure: Failure) -> StockadeError:
    """The exception for a failure of the extension module."""
    kind, message, remedy, details = failure.args
    known = _KINDS.get(kind, InternalError)
    return known(message, remedy, json.loads(details))


def of_execution(execution: Execution) -> Optional[ExecutionError]:
    """The exception for a program that did not end by itself; None if it did."""
    outcome, limit = execution.outcome, execution.limit or ""
    if outcome in ("exited", "signaled"):
        return None
    if outcome == "denied" and execution.denials:
        return DeniedError(execution.denials[0], execution)
    if outcome == "timed_out":
        remedy = "pass a larger timeout, or raise timeout_seconds in the policy"
        return TimedOutError("the program exceeded its time limit", remedy, execution)
    if outcome == "out_of_memory":
        remedy = "raise max_memory_mb in the policy"
        return OutOfMemoryError("the program ran out of memory", remedy, execution, limit)
    if outcome == "limit_exceeded":
        message = f"the program exceeded the limit {limit}"
        return LimitExceededError(message, f"raise {limit} in the policy", execution, limit)
    if outcome == "not_started":
        remedy = "name a program that exists inside"
        return NotStartedError(execution.not_started or "", remedy, execution)
    if outcome == "trapped":
        return TrappedError("the program did something illegal", "change it", execution)
    if outcome == "cancelled":
        return CancelledExecutionError("the program was cancelled", "", execution)
    return SandboxLostError("the sandbox disappeared", "open another one", execution)

"""One exception class per kind of failure."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from stockade import Denial, Execution, errors
from stockade._stockade import Failure

KINDS = {
    "invalid": (errors.InvalidError, ValueError),
    "policy": (errors.PolicyError, ValueError),
    "unavailable": (errors.UnavailableError, errors.StockadeError),
    "unenforceable": (errors.UnenforceableError, errors.StockadeError),
    "busy": (errors.BusyError, errors.StockadeError),
    "lost": (errors.LostError, errors.StockadeError),
    "closed": (errors.ClosedError, errors.StockadeError),
    "context_ended": (errors.ContextEndedError, errors.StockadeError),
    "port_denied": (errors.PortDeniedError, errors.StockadeError),
    "forked": (errors.ForkedError, errors.StockadeError),
    "state": (errors.StateError, errors.StockadeError),
    "record": (errors.RecordError, errors.StockadeError),
    "input_closed": (errors.InputClosedError, BrokenPipeError),
    "cancelled": (errors.InterruptedCallError, errors.StockadeError),
    "internal": (errors.InternalError, errors.StockadeError),
    "other": (errors.FileError, OSError),
    "not_found": (errors.NotFoundError, FileNotFoundError),
    "exists": (errors.ExistsError, FileExistsError),
    "not_a_directory": (errors.NotDirectoryError, NotADirectoryError),
    "is_a_directory": (errors.DirectoryError, IsADirectoryError),
    "not_empty": (errors.NotEmptyError, errors.FileError),
    "traversal": (errors.TraversalError, errors.FileError),
    "permission": (errors.FilePermissionError, PermissionError),
    "quota": (errors.QuotaError, errors.FileError),
    "too_large": (errors.TooLargeError, errors.FileError),
    "name_too_long": (errors.NameTooLongError, errors.FileError),
    "special_file": (errors.SpecialFileError, errors.FileError),
    "crosses_mounts": (errors.CrossesMountsError, errors.FileError),
    "archive": (errors.ArchiveError, errors.FileError),
    "incomplete": (errors.IncompleteError, errors.FileError),
}

OUTCOMES = {
    "exited": None,
    "signaled": None,
    "timed_out": errors.TimedOutError,
    "out_of_memory": errors.OutOfMemoryError,
    "limit_exceeded": errors.LimitExceededError,
    "denied": errors.DeniedError,
    "not_started": errors.NotStartedError,
    "trapped": errors.TrappedError,
    "cancelled": errors.CancelledExecutionError,
    "engine_lost": errors.SandboxLostError,
}


def words(path: str, after: str) -> set[str]:
    """The words that a pattern finds in a source file."""
    return set(re.findall(after, (ROOT / path).read_text()))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_failure_of_each_kind_is_an_exception_of_its_class(kind: str) -> None:
    expected, base = KINDS[kind]
    made = errors.of_failure(Failure(kind, "it failed", "repeat it", '{"more": 1}'))
    assert type(made) is expected and isinstance(made, base)
    assert (made.message, made.remedy, made.details) == ("it failed", "repeat it", {"more": 1})
    assert str(made) == "it failed; repeat it"


@pytest.mark.parametrize("outcome", sorted(OUTCOMES))
def test_execution_of_each_outcome_is_an_exception_of_its_class(outcome: str) -> None:
    denial = Denial("code", "rule no-shell", "code", "not wanted", "allow it")
    ended = Execution(outcome, None, b"out", b"", limit="max_pids", denials=(denial,))
    problem = errors.of_execution(ended)
    expected = OUTCOMES[outcome]
    assert (problem is None) if expected is None else (type(problem) is expected)
    if problem is not None:
        assert problem.execution is ended


def test_every_kind_and_outcome_of_the_extension_has_a_class() -> None:
    sources = [str(path.relative_to(ROOT)) for path in (ROOT / "crates/stockade-python/src").glob("*.rs")]
    kinds = words("crates/stockade-provider/src/files.rs", r'FileErrorKind::\w+ => "([a-z_]+)"')
    for source in sources:
        kinds |= words(source, r'Problem::new\(\s*"([a-z_]+)"')
        kinds |= words(source, r'(?:ErrorKind|StoreError|FilePathError)::\w+[^=\n]*=> "([a-z_]+)"')
    assert kinds == set(KINDS) == set(errors._KINDS)
    outcomes = words("crates/stockade-engine/src/outcome.rs", r'Outcome::\w+[^=\n]*=> "([a-z_]+)"')
    assert outcomes == set(OUTCOMES)


def test_every_class_is_that_of_a_kind_an_outcome_or_others() -> None:
    made = {kind for kind, _ in KINDS.values()} | {kind for kind in OUTCOMES.values() if kind}
    # Bases, and what `check` raises for a program that failed.
    made |= {errors.StockadeError, errors.ExecutionError, errors.ExitError}
    assert {getattr(errors, name) for name in errors.__all__} == made

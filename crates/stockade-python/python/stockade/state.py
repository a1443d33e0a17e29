"""Checkpoints of sandboxes, what changed in them, and how changes reach the host."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional, TypeVar, Union

from . import _stockade, errors
from ._stockade import Failure

_Path = Union[str, "os.PathLike[str]"]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Checkpoint:
    """The files of a sandbox at one moment. They stay when the sandbox ends."""

    reference: str
    """``SESSION/NAME``, as ``stockade restore`` and `Sandbox.restore` take it."""
    session: str
    """The sandbox."""
    name: str
    """Its name among the checkpoints of the sandbox."""
    created_ms: int
    """When it was made, in milliseconds since 1970."""
    provider: str
    """The wall of the sandbox."""
    entries: int
    """How many files, directories and links it has."""
    bytes: int
    """How many bytes of content it has, without holes."""
    stored_bytes: int
    """How many bytes were new in the store, compressed."""
    paused_us: int
    """How long programs were stopped, in microseconds."""
    shared: tuple[str, ...]
    """Directories inside where programs write to the host; the checkpoint does not have them."""


@dataclass(frozen=True)
class Change:
    """A difference between two states of a workspace."""

    place: str
    """The writable place inside, such as ``/workspace``."""
    path: str
    """The path below that place."""
    change: str
    """``added``, ``deleted``, ``modified`` or ``replaced``."""
    patch: str
    """The change as ``git diff`` prints it; empty for a directory."""
    binary: bool
    """Whether a file was compared by size and hash only."""
    added: int
    """How many lines were added."""
    removed: int
    """How many lines were removed."""
    flag: Optional[str]
    """Why applying it needs consent."""
    old: Optional[dict[str, Any]]
    """Kind, mode, size and target before."""
    new: Optional[dict[str, Any]]
    """Kind, mode, size and target now."""


@dataclass(frozen=True)
class Applied:
    """What became of a change."""

    path: str
    """The path below the workspace."""
    change: str
    """``added``, ``deleted``, ``modified`` or ``replaced``."""
    verdict: str
    """``applied``, ``same``, ``flagged``, ``refused`` or ``conflict``; in a dry run, ``applied``
    means that it would be."""
    reason: Optional[str]
    """Why it was not applied."""


def checkpoints(session: Optional[str] = None) -> list[Checkpoint]:
    """The checkpoints of a sandbox, or all."""
    return [view(line) for line in json.loads(_called(_stockade.checkpoints, session))]


def remove_checkpoint(reference: str) -> None:
    """Removes a checkpoint. ``stockade store gc`` then frees its space."""
    _called(_stockade.remove_checkpoint, reference)


def export_checkpoint(reference: str, file: _Path) -> None:
    """Writes a checkpoint to a new file, such as ``work.tar.zst``, which only its owner can read."""
    _called(_stockade.export_checkpoint, reference, os.fspath(file))


def import_checkpoint(file: _Path, reference: Optional[str] = None) -> Checkpoint:
    """Reads a checkpoint from a file into the store, under its own reference or another one.

    Every name, length and hash is checked. `Sandbox.restore` takes its files by the reference.
    """
    return view(json.loads(_called(_stockade.import_checkpoint, os.fspath(file), reference)))


def diff(reference: str, earlier: Optional[str] = None, all_places: bool = False) -> list[Change]:
    """What a checkpoint changed since the workspace started, or since an earlier one."""
    text = _called(_stockade.differences, reference, earlier=earlier, all=all_places)
    return [Change(**line) for line in json.loads(text)]


def apply(
    reference: str,
    to: Optional[_Path] = None,
    only: Sequence[_Path] = (),
    accept: Sequence[_Path] = (),
    dry_run: bool = False,
) -> list[Applied]:
    """Writes changes of a checkpoint to a directory of the host."""
    text = _called(
        _stockade.apply_checkpoint,
        reference,
        to=None if to is None else os.fspath(to),
        only=[os.fspath(path) for path in only],
        accept=[os.fspath(path) for path in accept],
        dry_run=dry_run,
    )
    return [Applied(**line) for line in json.loads(text)]


def view(line: dict[str, Any]) -> Checkpoint:
    """A checkpoint as the extension module describes it."""
    return Checkpoint(**{**line, "shared": tuple(line["shared"])})


def new_label() -> str:
    """A name for the checkpoints of a sandbox of this process."""
    return f"python-{uuid.uuid4().hex[:8]}"


def passing_name() -> str:
    """The name of a checkpoint that goes with the call for which it was made."""
    return f"look-{uuid.uuid4().hex[:8]}"


def _called(function: Callable[..., _Result], *words: Any, **options: Any) -> _Result:
    try:
        return function(*words, **options)
    except Failure as failure:
        raise errors.of_failure(failure) from None

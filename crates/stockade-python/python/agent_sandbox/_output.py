"""The files of ``/output``, where a wall cannot write to the directory of the caller.

No program in a container is root, so a container of root cannot write to a directory of root. It
writes to a directory of its own instead, whose files are copied without following a link:

    output_dir ── give, before the start ──▶ /output ── take, after each execution ──▶ output_dir
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import weakref
from typing import Any, Optional

from stockade import Policy, _beneath

_log = logging.getLogger("agent_sandbox")

_PREFIX = "stockade-output-"
_NOBODY = 65534
_MIB = 1024 * 1024


class Output:
    """An output directory that needs no copies."""

    def take(self) -> None:
        """Copies what the sandbox has written to the directory."""

    def remove(self) -> None:
        """Removes copies."""


class StagedOutput(Output):
    """An output directory whose files are copied, up to the limit for files of the policy."""

    def __init__(self, target: str, most_bytes: int) -> None:
        self._target, self._most = target, most_bytes
        _sweep()
        stage = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
        self._lock, self._removed = threading.Lock(), threading.Event()
        # Also at the exit of the interpreter.
        self._removal = weakref.finalize(self, _discard, stage, self._lock, self._removed)
        self.place = os.path.join(stage, "output")
        """The directory that the sandbox writes to."""
        os.mkdir(self.place, 0o700)
        self._known = self._copy(target, self.place)
        for _, at, files in _beneath.walk(self.place):
            os.fchown(at, _NOBODY, _NOBODY)
            for name in files:
                os.chown(name, _NOBODY, _NOBODY, dir_fd=at, follow_symlinks=False)

    def take(self) -> None:
        with self._lock:
            # A stage that is being removed says nothing about the files of the caller.
            if self._removed.is_set():
                return
            found = self._copy(self.place, self._target)
            for names in self._known - found:
                if _beneath.is_missing(self.place, list(names)):
                    _remove(self._target, list(names))
                else:
                    found.add(names)
            self._known = found

    def remove(self) -> None:
        self._removal()

    def _copy(self, source: str, target: str) -> set[tuple[str, ...]]:
        """Copies the files of a directory to another, and returns their names."""
        found = set()
        try:
            for names, content, mode in _beneath.regular_files(source, self._most):
                _beneath.write(target, names, content, mode)
                found.add(tuple(names))
        except _beneath.TooLargeError as error:
            limit = f"its limit is the {self._most // _MIB} MB of max_disk_mb"
            raise RuntimeError(f"cannot copy /output: {error}; {limit}") from error
        return found


def staged(policy: Policy) -> tuple[Policy, Output]:
    """The policy for a container, and its output: copied if this process is root."""
    clauses = policy.to_dict()
    target = _output_of(clauses)
    if target is None or os.geteuid() != 0 or os.stat(target).st_uid == _NOBODY:
        return policy, Output()
    output = StagedOutput(target, clauses["limits"]["max_disk_mb"] * _MIB)
    for mount in clauses["filesystem"]["write"]:
        if mount["guest"] == "/output":
            mount["host"] = output.place
    made = Policy.build(**clauses)
    return Policy(made._checked, policy._files), output


def _discard(stage: str, lock: threading.Lock, removed: threading.Event) -> None:
    """Removes a stage that nothing is copied from any more."""
    with lock:
        removed.set()
        try:
            _beneath.remove_tree(stage)
        except OSError as error:
            _log.warning("cannot remove %s: %s", stage, error)


def _sweep() -> None:
    """Removes what killed processes of this user left. What cannot be removed stays."""
    place = tempfile.gettempdir()
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        owner = name[len(_PREFIX) :].partition("-")[0] if name.startswith(_PREFIX) else ""
        path = os.path.join(place, name)
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            try:
                if os.lstat(path).st_uid == os.geteuid():
                    _beneath.remove_tree(path)
            except OSError as error:
                _log.warning("cannot remove %s: %s", path, error)


def _output_of(clauses: dict[str, Any]) -> Optional[str]:
    """The directory of the host that a policy shows at ``/output``."""
    mounts = clauses["filesystem"]["write"]
    return next((mount["host"] for mount in mounts if mount["guest"] == "/output"), None)


def _remove(base: str, names: list[str]) -> None:
    try:
        with _beneath.directory(base, names[:-1]) as at:
            os.unlink(names[-1], dir_fd=at)
    except FileNotFoundError:
        pass

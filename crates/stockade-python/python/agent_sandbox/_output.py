"""The files of ``/output``, where a wall cannot write to the directory of the caller.

No program in a container is root, so a container of root cannot write to a directory of root. It
writes to a directory of its own instead, and its files are copied at the end of each execution:

    output_dir ── give, before the first ──▶ /output ── take, after each ──▶ output_dir

The guest packs them with the rights of the sandbox; this process only unpacks, and follows no link.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from typing import Optional

from stockade import Policy, Sandbox, _beneath

_NOBODY = 65534


class Output:
    """An output directory that needs no copies."""

    def give(self, sandbox: Sandbox) -> None:
        """Copies what the directory has into the sandbox."""

    def take(self) -> None:
        """Copies what the sandbox has written to the directory."""

    def remove(self) -> None:
        """Removes copies."""


class StagedOutput(Output):
    """An output directory whose files are copied."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._stage = tempfile.mkdtemp(prefix="stockade-output-")
        self.place = os.path.join(self._stage, "output")
        """The directory that the sandbox writes to."""
        os.mkdir(self.place, 0o700)
        os.chown(self.place, _NOBODY, _NOBODY)
        self._sandbox: Optional[Sandbox] = None
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def give(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        for name in os.listdir(self._target):
            sandbox.files.upload(os.path.join(self._target, name), "/output")
        self._known = set(_files(self._target))

    def take(self) -> None:
        if self._sandbox is None:
            return
        with self._lock, tempfile.TemporaryDirectory(prefix="stockade-output-") as place:
            self._sandbox.files.download("/output", place)
            source = os.path.join(place, "output")
            found = _files(source)
            for name in found:
                names = _beneath.names_of(name)
                content = _beneath.read(source, names)
                mode = os.stat(os.path.join(source, name), follow_symlinks=False).st_mode & 0o777
                _beneath.write(self._target, names, content, mode)
            for name in self._known - set(found):
                _remove(self._target, _beneath.names_of(name))
            self._known = set(found)

    def remove(self) -> None:
        shutil.rmtree(self._stage, ignore_errors=True)


def staged(policy: Policy) -> tuple[Policy, Output]:
    """The policy for a container, and its output: copied if this process is root."""
    clauses = policy.to_dict()
    target = _output_of(clauses)
    if target is None or os.geteuid() != 0 or os.stat(target).st_uid == _NOBODY:
        return policy, Output()
    output = StagedOutput(target)
    for mount in clauses["filesystem"]["write"]:
        if mount["guest"] == "/output":
            mount["host"] = output.place
    made = Policy.build(**clauses)
    return Policy(made._checked, policy._files), output


def _output_of(clauses: dict[str, object]) -> Optional[str]:
    """The directory of the host that a policy shows at ``/output``."""
    files = clauses.get("filesystem")
    mounts = files.get("write", []) if isinstance(files, dict) else []
    found = (mount["host"] for mount in mounts if mount.get("guest") == "/output")
    return next(found, None)


def _files(base: str) -> list[str]:
    """The regular files below a directory, by their relative paths."""
    found = []
    for place, _, names in os.walk(base, followlinks=False):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.relpath(path, base))
    return found


def _remove(base: str, names: list[str]) -> None:
    try:
        with _beneath.directory(base, names[:-1]) as at:
            os.unlink(names[-1], dir_fd=at)
    except FileNotFoundError:
        pass

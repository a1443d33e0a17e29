"""A directory of the host that paths do not leave."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import Callable, Union

from .. import _beneath, errors
from ..policy import Policy

_MIB = 1024 * 1024

_Act = Callable[[list[str]], bytes]


class SecurityError(Exception):
    """A path leads out of its directory."""


class ResourceExhaustedError(Exception):
    """A limit is reached."""


class FilesystemSandbox:
    """Files below one directory, up to a total size. No link is followed."""

    def __init__(
        self, base_path: Union[str, os.PathLike[str], None] = None, max_size_mb: int = 100
    ) -> None:
        """Uses `base_path`, which is made if it is missing, or a new temporary directory."""
        if base_path is None:
            base_path = tempfile.mkdtemp(prefix="stockade-files-")
        self.base_path = Path(os.path.realpath(base_path))
        """The directory."""
        _refuse_system(self.base_path)
        self.base_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.max_size_mb = max_size_mb
        """The most that all files together may have."""
        self._lock = threading.Lock()

    @property
    def total_written(self) -> int:
        """The bytes of all files; OSError if code has made a directory unreadable."""
        return _beneath.total_size(self.base_path) if self.base_path.exists() else 0

    def get_path(self, relative_path: str) -> Path:
        """The path of a name below the directory; SecurityError if it is not below."""
        path = self.base_path.joinpath(*self._names(relative_path))
        real = Path(os.path.realpath(path))
        if real != self.base_path and self.base_path not in real.parents:
            raise SecurityError(f"Path traversal attempt: {relative_path}")
        return real

    def read_file(self, path: str) -> str:
        """The text of a file."""
        return self._act(path, lambda names: _beneath.read(self.base_path, names)).decode()

    def write_file(self, path: str, content: str) -> bool:
        """Writes a file and makes missing directories. Only the new text counts."""
        sent = content.encode()

        def act(names: list[str]) -> bytes:
            if self._is_over(len(sent) - _beneath.size_of(self.base_path, names)):
                raise ResourceExhaustedError("Filesystem quota exceeded")
            _beneath.write(self.base_path, names, sent)
            return b""

        with self._lock:
            self._act(path, act)
        return True

    def list_directory(self, path: str = ".") -> list[str]:
        """The names in a directory, in order."""

        def act(names: list[str]) -> bytes:
            with _beneath.directory(self.base_path, names) as at:
                return b"\0".join(sorted(os.fsencode(name) for name in os.listdir(at)))

        found = self._act(path, act)
        return [os.fsdecode(name) for name in found.split(b"\0") if name]

    def delete_file(self, path: str) -> bool:
        """Removes a file, a link, or a directory with everything in it. False if it does not exist."""
        names = self._names(path)
        if not names:
            raise SecurityError(f"Path traversal attempt: {path}")
        try:
            with _beneath.directory(self.base_path, names[:-1]) as at:
                _beneath.remove(at, names[-1])
        except FileNotFoundError:
            return False
        except _beneath.LeavesError as error:
            raise SecurityError(f"Path traversal attempt: {path}") from error
        return True

    def cleanup(self) -> None:
        """Removes the directory with everything in it."""
        if self.base_path.exists():
            _beneath.remove_tree(self.base_path)

    def _is_over(self, more: int = 0) -> bool:
        """Whether the files with `more` bytes are too large. What cannot be counted is."""
        try:
            return self.total_written + more > self.max_size_mb * _MIB
        except (OSError, _beneath.LeavesError):
            return True

    def _names(self, path: str) -> list[str]:
        try:
            return _beneath.names_of(path)
        except _beneath.LeavesError as error:
            raise SecurityError(f"Path traversal attempt: {path}") from error

    def _act(self, path: str, act: _Act) -> bytes:
        """Acts on a path; what leaves the directory is a SecurityError."""
        names = self._names(path)
        try:
            return act(names)
        except _beneath.LeavesError as error:
            raise SecurityError(f"Path traversal attempt: {path}") from error
        except FileNotFoundError as error:
            raise FileNotFoundError(path) from error
        except NotADirectoryError as error:
            raise NotADirectoryError(path) from error


def _refuse_system(path: Path) -> None:
    """Refuses directories of the system and whole homes: `cleanup` removes the directory."""
    try:
        Policy.build(filesystem={"write": [{"host": str(path), "guest": "/files"}]})
    except errors.PolicyError as error:
        raise SecurityError(f"{path} cannot be a sandbox: {error.message}") from error

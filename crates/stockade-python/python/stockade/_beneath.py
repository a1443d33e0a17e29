"""Files below a directory of the host, without following a link.

Code in a sandbox may write to the directory. Every name is opened relative to the descriptor of the
directory above it, so a link that is put in its place leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Union

Path = Union[str, "os.PathLike[str]"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LeavesError(Exception):
    """A path leads out of the directory, or through a link."""


def names_of(path: Path) -> list[str]:
    """The names of a relative path. ``..`` goes up, but not out of the directory."""
    text = os.fspath(path)
    if os.path.isabs(text) or "\0" in text:
        raise LeavesError(f"the path {text!r} is not relative")
    names: list[str] = []
    for name in text.split("/"):
        if name == ".." and not names:
            raise LeavesError(f"the path {text!r} leads out of the directory")
        if name == "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return names


@contextmanager
def directory(base: Path, names: list[str], *, make: bool = False) -> Iterator[int]:
    """The descriptor of a directory below `base`; with `make`, missing ones are made."""
    at = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            if make:
                try:
                    os.mkdir(name, 0o755, dir_fd=at)
                except FileExistsError:
                    pass
            below = _open(name, _DIRECTORY, at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def read(base: Path, names: list[str]) -> bytes:
    """The content of a file."""
    with directory(base, names[:-1]) as at:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(_open(_last(names), flags, at), "rb") as opened:
            _regular(opened.fileno(), names)
            return opened.read()


def write(base: Path, names: list[str], content: bytes, mode: int = 0o644) -> None:
    """Replaces a file; missing directories are made."""
    with directory(base, names[:-1], make=True) as at:
        name = _last(names)
        # A new file takes the place of the old one: nothing inside has it open, and it is no link.
        new = f".{os.getpid():x}-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(new, flags, mode, dir_fd=at), "wb") as opened:
                opened.write(content)
            if _kind(name, at) == stat.S_IFLNK:
                raise LeavesError(f"{name!r} is a link")
            os.replace(new, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            try:
                os.unlink(new, dir_fd=at)
            except FileNotFoundError:
                pass
            raise


def size_of(base: Path, names: list[str]) -> int:
    """The size of a file; zero if there is none."""
    try:
        with directory(base, names[:-1]) as at:
            found = os.stat(_last(names), dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


class TooLargeError(Exception):
    """The files have more bytes than allowed."""


def regular_files(base: Path, most: int) -> Iterator[tuple[list[str], bytes, int]]:
    """The regular files below a directory: their names, contents and modes. Links and special files
    are left out; more than `most` bytes are a TooLargeError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for place, _, files, at in os.fwalk(base, follow_symlinks=False):
        above = names_of(os.path.relpath(place, base))
        for name in files:
            try:
                descriptor = os.open(name, flags, dir_fd=at)
            except OSError:
                # A link, a socket, or gone.
                continue
            with os.fdopen(descriptor, "rb") as opened:
                mode = os.fstat(descriptor).st_mode
                if not stat.S_ISREG(mode):
                    continue
                content = opened.read(most + 1)
            most -= len(content)
            if most < 0:
                raise TooLargeError("the files have more bytes than allowed")
            yield [*above, name], content, stat.S_IMODE(mode) & 0o777


def total_size(base: Path) -> int:
    """The sizes of all files."""
    total = 0
    for _, _, files, at in os.fwalk(base, follow_symlinks=False):
        for name in files:
            try:
                total += os.stat(name, dir_fd=at, follow_symlinks=False).st_size
            except FileNotFoundError:
                pass
    return total


def _open(name: str, flags: int, at: int) -> int:
    try:
        return os.open(name, flags, dir_fd=at)
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        if is_link or (error.errno == errno.ENOTDIR and _kind(name, at) == stat.S_IFLNK):
            raise LeavesError(f"{name!r} is a link") from error
        raise


def _kind(name: str, at: int) -> int:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0


def _last(names: list[str]) -> str:
    if not names:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return names[-1]


def _regular(descriptor: int, names: list[str]) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), "/".join(names))
    if not stat.S_ISREG(mode):
        raise LeavesError(f"{names[-1]!r} is not a file")

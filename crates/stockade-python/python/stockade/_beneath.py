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

# Why a name in a listing cannot be opened as a directory: it is gone, or something else now.
_NO_DIRECTORY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

# The same for a file: it is gone, a link, or a socket.
_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.ENXIO)

# How deep copied files may be: no longer path has a name for the kernel, path_resolution(7).
_DEEPEST = 2048


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
    """The size of a file; zero if it does not exist."""
    try:
        with directory(base, names[:-1]) as at:
            found = os.stat(_last(names), dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


class TooLargeError(Exception):
    """The files have more bytes than allowed, or their directories are nested too deeply."""


def walk(base: Path) -> Iterator[tuple[list[str], int, list[str]]]:
    """Each directory from `base` down: its names, its descriptor, and its entries that are not
    directories. The depth is unlimited: only one directory is open at a time."""
    at = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    names: list[str] = []
    above: list[tuple[tuple[int, int], list[str]]] = []
    try:
        files, below = _entries(at)
        yield [], at, files
        while below or above:
            if below:
                name = below.pop()
                try:
                    opened = os.open(name, _DIRECTORY, dir_fd=at)
                except OSError as error:
                    if error.errno in _NO_DIRECTORY:
                        continue
                    raise
                above.append((_identity(at), below))
                os.close(at)
                at = opened
                names.append(name)
                files, below = _entries(at)
                yield list(names), at, files
            else:
                opened = os.open("..", _DIRECTORY, dir_fd=at)
                os.close(at)
                at = opened
                names.pop()
                expected, below = above.pop()
                # A directory that was moved meanwhile has another one above it.
                if _identity(at) != expected:
                    raise LeavesError(f"a directory below {os.fspath(base)!r} was moved")
    finally:
        os.close(at)


def remove(at: int, name: str) -> None:
    """Removes a file, a link, or a directory with everything in it, also without permissions."""
    try:
        os.unlink(name, dir_fd=at)
        return
    except IsADirectoryError:
        pass
    with _permitted(at, name) as top:
        # Directories move up to the first one: neither the stack nor the number of descriptors
        # grows with the depth.
        pending = _clear(top, top)
        while pending:
            with _permitted(top, pending[-1]) as below:
                moved = _clear(below, top)
            os.rmdir(pending.pop(), dir_fd=top)
            pending += moved
    os.rmdir(name, dir_fd=at)


def remove_tree(path: Path) -> None:
    """The same for a path of the host, whose last name is not followed."""
    above, name = os.path.split(os.path.abspath(path))
    # Removing a name needs no permission to list the others.
    at = os.open(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove(at, name)
    finally:
        os.close(at)


def regular_files(base: Path, most: int) -> Iterator[tuple[list[str], bytes, int]]:
    """The regular files below a directory: their names, contents and modes. Links and special files
    are left out; more than `most` bytes are a TooLargeError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for above, at, files in walk(base):
        if len(above) > _DEEPEST:
            raise TooLargeError(f"directories are nested more than {_DEEPEST} deep")
        for name in files:
            try:
                descriptor = os.open(name, flags, dir_fd=at)
            except OSError as error:
                if error.errno in _NO_FILE:
                    continue
                raise
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
    """The sizes of all files; OSError if a directory cannot be read."""
    total = 0
    for _, at, files in walk(base):
        for name in files:
            try:
                total += os.stat(name, dir_fd=at, follow_symlinks=False).st_size
            except FileNotFoundError:
                pass
    return total


def is_missing(base: Path, names: list[str]) -> bool:
    """Whether nothing has this name below `base`, which exists. What a link hides is not missing."""
    with directory(base, []):
        pass
    try:
        with directory(base, names[:-1]) as at:
            os.stat(_last(names), dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return True
    except LeavesError:
        pass
    return False


def _entries(at: int) -> tuple[list[str], list[str]]:
    """The names in a directory: those that are not directories, and those that are."""
    files: list[str] = []
    directories: list[str] = []
    with os.scandir(at) as entries:
        for entry in entries:
            (directories if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
    return files, directories


def _clear(at: int, top: int) -> list[str]:
    """Removes the files of a directory and moves its directories to `top`. Returns their names."""
    files, directories = _entries(at)
    for name in files:
        os.unlink(name, dir_fd=at)
    if at == top:
        return directories
    moved = []
    for name in directories:
        # Without permission to write to it, no directory can be moved to another one.
        with _permitted(at, name):
            moved.append(f".{os.urandom(16).hex()}")
            os.rename(name, moved[-1], src_dir_fd=at, dst_dir_fd=top)
    return moved


@contextmanager
def _permitted(at: int, name: str) -> Iterator[int]:
    """The descriptor of a directory to which its owner now has every permission."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if stat.S_IMODE(os.fstat(found).st_mode) & 0o700 != 0o700:
            # chmod(2) has no form for a descriptor that is only a path.
            os.chmod(f"/proc/self/fd/{found}", 0o700)
        opened = os.open(".", _DIRECTORY, dir_fd=found)
    finally:
        os.close(found)
    try:
        yield opened
    finally:
        os.close(opened)


def _identity(at: int) -> tuple[int, int]:
    found = os.fstat(at)
    return found.st_dev, found.st_ino


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

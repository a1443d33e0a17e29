"""The files inside a sandbox."""

from __future__ import annotations

import asyncio
import os
import tarfile
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Callable, Literal, Optional, Union, overload

from . import _bridge, _core, errors
from ._core import Path
from ._stockade import FileStream, FileWatch, Operation, Session

MOST_BYTES = 256 << 20
"""The largest file that `read` reads unless the caller says otherwise."""


@dataclass(frozen=True)
class EntryInfo:
    """A file or a directory inside."""

    path: str
    """Its path; in a list, below the listed directory."""
    type: str
    """``file``, ``dir``, ``symlink`` or ``special``."""
    size: int
    """Its size in bytes."""
    mode: int
    """Its permission bits."""
    modified: int
    """When it was changed last, in seconds since 1970."""
    symlink_target: Optional[str] = None
    """Where a link leads."""

    @property
    def name(self) -> str:
        """The last component of its path."""
        return os.path.basename(self.path.rstrip("/"))


@dataclass(frozen=True)
class FilesystemEvent:
    """A change in a watched directory."""

    type: str
    """``created``, ``modified``, ``removed``, or ``lost`` if too many came at once."""
    path: Optional[str]
    """The path below the directory; None for the directory itself."""


class Files:
    """The files inside a sandbox, as its programs see them. A relative path starts in the
    workspace."""

    def __init__(self, session: Session) -> None:
        self._files = session.files()

    @overload
    def read(self, path: Path, *, format: Literal["text"] = ..., most: int = ...) -> str: ...
    @overload
    def read(self, path: Path, *, format: Literal["bytes"], most: int = ...) -> bytes: ...
    def read(
        self, path: Path, *, format: Literal["text", "bytes"] = "text", most: int = MOST_BYTES
    ) -> Union[str, bytes]:
        """Reads a file as text or as bytes."""
        return _content(_bridge.wait(_call(self._files.read, _sent(path), most)), format)

    def write(
        self,
        path: Path,
        data: Union[str, bytes],
        *,
        mode: Literal["replace", "create", "append"] = "replace",
        executable: bool = False,
    ) -> int:
        """Writes a file, makes missing directories, and returns the number of bytes."""
        sent = data.encode() if isinstance(data, str) else bytes(data)
        count: int = _bridge.wait(_call(self._files.write, _sent(path), sent, mode, executable))
        return count

    def list(self, path: Path = ".", *, depth: int = 1) -> list[EntryInfo]:
        """Lists a directory, `depth` levels deep."""
        return _entries(_bridge.wait(_call(self._files.list, _sent(path), depth)))

    def get_info(self, path: Path, *, follow: bool = True) -> EntryInfo:
        """Describes a file or a directory."""
        stat = _bridge.wait(_call(self._files.stat, _sent(path), follow))
        return _entry(os.fsencode(path), stat)

    def exists(self, path: Path) -> bool:
        """Whether a path leads to something."""
        try:
            self.get_info(path)
        except (errors.NotFoundError, errors.NotDirectoryError):
            return False
        return True

    def make_dir(self, path: Path) -> None:
        """Makes a directory and those above it; an existing one is no error."""
        _bridge.wait(_call(self._files.make_directory, _sent(path)))

    def move(self, old_path: Path, new_path: Path, *, replace: bool = False) -> None:
        """Renames a file or a directory."""
        _bridge.wait(_call(self._files.rename, _sent(old_path), _sent(new_path), replace))

    rename = move

    def remove(self, path: Path, *, recursive: bool = True) -> bool:
        """Removes a file, or a directory with everything in it. Returns whether it was there."""
        was_there: bool = _bridge.wait(_call(self._files.remove, _sent(path), recursive))
        return was_there

    def watch(self, path: Path = ".", *, recursive: bool = False) -> Iterator[FilesystemEvent]:
        """Watches a directory: every change after this call is an item of the iterator."""
        return _events(_bridge.wait(_call(self._files.watch, _sent(path), recursive)))

    watch_dir = watch

    def upload(self, local: Path, path: Path = ".") -> None:
        """Copies a file or a tree of the host into a directory inside, under its own name."""
        with tempfile.NamedTemporaryFile(prefix="stockade-", suffix=".tar") as archive:
            _pack(archive, local)
            _bridge.wait(_call(self._files.upload, _sent(path), archive.name))

    def download(self, path: Path, local: Path) -> None:
        """Copies a file or a tree from inside into a directory of the host, under its own name.

        Everything inside is untrusted: links that lead out of the directory, devices and the like
        are refused.
        """
        _check_unpacking()
        stream: FileStream = _bridge.wait(_call(self._files.download, _sent(path)))
        _unpack(_Reader(stream), path, local)


class AsyncFiles:
    """The files inside a sandbox, for asyncio. It mirrors `Files`."""

    def __init__(self, session: Session) -> None:
        self._files = session.files()

    @overload
    async def read(self, path: Path, *, format: Literal["text"] = ..., most: int = ...) -> str: ...
    @overload
    async def read(self, path: Path, *, format: Literal["bytes"], most: int = ...) -> bytes: ...
    async def read(
        self, path: Path, *, format: Literal["text", "bytes"] = "text", most: int = MOST_BYTES
    ) -> Union[str, bytes]:
        """Reads a file as text or as bytes."""
        read = await _bridge.wait_async(_call(self._files.read, _sent(path), most))
        return _content(read, format)

    async def write(
        self,
        path: Path,
        data: Union[str, bytes],
        *,
        mode: Literal["replace", "create", "append"] = "replace",
        executable: bool = False,
    ) -> int:
        """Writes a file, makes missing directories, and returns the number of bytes."""
        sent = data.encode() if isinstance(data, str) else bytes(data)
        call = _call(self._files.write, _sent(path), sent, mode, executable)
        count: int = await _bridge.wait_async(call)
        return count

    async def list(self, path: Path = ".", *, depth: int = 1) -> list[EntryInfo]:
        """Lists a directory, `depth` levels deep."""
        return _entries(await _bridge.wait_async(_call(self._files.list, _sent(path), depth)))

    async def get_info(self, path: Path, *, follow: bool = True) -> EntryInfo:
        """Describes a file or a directory."""
        stat = await _bridge.wait_async(_call(self._files.stat, _sent(path), follow))
        return _entry(os.fsencode(path), stat)

    async def exists(self, path: Path) -> bool:
        """Whether a path leads to something."""
        try:
            await self.get_info(path)
        except (errors.NotFoundError, errors.NotDirectoryError):
            return False
        return True

    async def make_dir(self, path: Path) -> None:
        """Makes a directory and those above it; an existing one is no error."""
        await _bridge.wait_async(_call(self._files.make_directory, _sent(path)))

    async def move(self, old_path: Path, new_path: Path, *, replace: bool = False) -> None:
        """Renames a file or a directory."""
        call = _call(self._files.rename, _sent(old_path), _sent(new_path), replace)
        await _bridge.wait_async(call)

    rename = move

    async def remove(self, path: Path, *, recursive: bool = True) -> bool:
        """Removes a file, or a directory with everything in it. Returns whether it was there."""
        call = _call(self._files.remove, _sent(path), recursive)
        was_there: bool = await _bridge.wait_async(call)
        return was_there

    async def watch(
        self, path: Path = ".", *, recursive: bool = False
    ) -> AsyncIterator[FilesystemEvent]:
        """Watches a directory: every change after this call is an item of the iterator."""
        call = _call(self._files.watch, _sent(path), recursive)
        return _async_events(await _bridge.wait_async(call))

    watch_dir = watch

    async def upload(self, local: Path, path: Path = ".") -> None:
        """Copies a file or a tree of the host into a directory inside, under its own name.
        Cancelling the task ends the copy; what was copied so far stays."""
        with tempfile.NamedTemporaryFile(prefix="stockade-", suffix=".tar") as archive:
            writer = _Writer(archive)
            await _in_thread(lambda: _pack(writer, local), writer.cancel)
            await _bridge.wait_async(_call(self._files.upload, _sent(path), archive.name))

    async def download(self, path: Path, local: Path) -> None:
        """Copies a file or a tree from inside into a directory of the host, under its own name.
        Cancelling the task ends the copy; what was copied so far stays."""
        _check_unpacking()
        stream: FileStream = await _bridge.wait_async(_call(self._files.download, _sent(path)))
        reader = _Reader(stream)
        await _in_thread(lambda: _unpack(reader, path, local), reader.cancel)


async def _in_thread(act: Callable[[], None], cancel: Callable[[], None]) -> None:
    """Acts on another thread. Cancelling the task calls `cancel` and waits until the act ends."""
    acting = asyncio.ensure_future(asyncio.to_thread(act))
    try:
        await asyncio.shield(acting)
    except asyncio.CancelledError:
        cancel()
        await asyncio.wait({acting})
        # The caller sees the cancellation, not what it made of the act.
        acting.cancelled() or acting.exception()
        raise


def _pack(archive: Any, local: Path) -> None:
    """Writes a file or a tree of the host as a tar archive."""
    with tarfile.open(fileobj=archive, mode="w|") as tar:
        tar.add(local, arcname=os.path.basename(os.path.abspath(local)))
    archive.flush()


def _check_unpacking() -> None:
    if not hasattr(tarfile, "data_filter"):
        message = "this version of Python cannot unpack untrusted archives safely"
        raise errors.InvalidError(message, "use the latest release of your Python version")


def _unpack(reader: Any, path: Path, local: Path) -> None:
    """Unpacks an archive from inside, which is untrusted."""
    try:
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            tar.extractall(local, filter="data")
    except (tarfile.TarError, EOFError) as error:
        message = f"cannot unpack {os.fsdecode(path)}: {error}"
        raise errors.ArchiveError(message, "remove what it names inside") from error


class _Writer:
    """Writes an archive until another thread cancels it."""

    def __init__(self, file: Any) -> None:
        self._file, self._is_cancelled = file, False

    def write(self, piece: bytes) -> None:
        if self._is_cancelled:
            raise errors.InterruptedCallError("the copy was cancelled")
        self._file.write(piece)

    def flush(self) -> None:
        self._file.flush()

    def cancel(self) -> None:
        self._is_cancelled = True


class _Reader:
    """Reads a stream of the extension module, as tarfile wants it, until another thread cancels it."""

    def __init__(self, stream: FileStream) -> None:
        self._stream, self._rest = stream, b""
        self._lock = threading.Lock()
        self._reading: Optional[Operation] = None
        self._is_cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            if self._reading is not None:
                self._reading.cancel()

    def _next(self) -> bytes:
        with self._lock:
            if self._is_cancelled:
                raise errors.InterruptedCallError("the copy was cancelled")
            self._reading = _call(self._stream.next)
        piece: bytes = _bridge.wait(self._reading)
        return piece

    def read(self, size: int = -1) -> bytes:
        pieces = [self._rest]
        count = len(self._rest)
        while size < 0 or count < size:
            piece = self._next()
            if not piece:
                break
            pieces.append(piece)
            count += len(piece)
        whole = b"".join(pieces)
        end = len(whole) if size < 0 else size
        self._rest = whole[end:]
        return whole[:end]


def _events(watch: FileWatch) -> Iterator[FilesystemEvent]:
    while True:
        change = _bridge.wait(_call(watch.next))
        if change is None:
            return
        yield _event(change)


async def _async_events(watch: FileWatch) -> AsyncIterator[FilesystemEvent]:
    while True:
        change = await _bridge.wait_async(_call(watch.next))
        if change is None:
            return
        yield _event(change)


def _call(method: Any, *arguments: Any) -> Any:
    return _core.started(lambda: method(*arguments))


def _sent(path: Path) -> bytes:
    return os.fsencode(path)


def _content(content: bytes, format: str) -> Union[str, bytes]:
    return content if format == "bytes" else content.decode(errors="replace")


def _event(change: tuple[str, Optional[bytes]]) -> FilesystemEvent:
    kind, path = change
    return FilesystemEvent(kind, None if path is None else os.fsdecode(path))


def _entries(entries: Any) -> list[EntryInfo]:
    return [_entry(path, stat) for path, stat in entries]


def _entry(path: bytes, stat: Any) -> EntryInfo:
    kind, size, mode, modified, target = stat
    led = None if target is None else os.fsdecode(bytes(target))
    return EntryInfo(os.fsdecode(path), kind, size, mode, modified, led)

"""The files inside a sandbox."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from stockade import (
    ArchiveError,
    AsyncSandbox,
    DirectoryError,
    ExistsError,
    FileError,
    NotDirectoryError,
    NotFoundError,
    QuotaError,
    Sandbox,
    TooLargeError,
    TraversalError,
)


@pytest.fixture
def sandbox(provider: str):  # type: ignore[no-untyped-def]
    """Each wall of the fixture has files: one that loses them fails here."""
    with Sandbox(provider=provider) as opened:
        assert opened.files.list(".") == []
        yield opened


def test_file_is_written_read_listed_moved_and_removed(sandbox: Sandbox) -> None:
    files = sandbox.files
    assert files.write("notes/a.txt", "ä\n") == 3
    assert (files.read("notes/a.txt"), files.read("/workspace/notes/a.txt", format="bytes")) == (
        "ä\n",
        b"\xc3\xa4\n",
    )
    assert sandbox.run(["cat", "notes/a.txt"]).stdout == "ä\n"
    files.make_dir("notes/more")
    listed = sorted((entry.path, entry.type, entry.name) for entry in files.list("notes"))
    assert listed == [("a.txt", "file", "a.txt"), ("more", "dir", "more")]
    files.move("notes/a.txt", "notes/b.txt")
    assert (files.exists("notes/a.txt"), files.exists("notes/b.txt")) == (False, True)
    assert files.get_info("notes/b.txt").size == 3
    assert (files.remove("notes"), files.remove("notes")) == (True, False)


def test_each_failure_has_its_exception(sandbox: Sandbox) -> None:
    files = sandbox.files
    files.write("file", "x")
    with pytest.raises(NotFoundError) as raised:
        files.read("absent")
    assert isinstance(raised.value, FileNotFoundError) and isinstance(raised.value, FileError)
    with pytest.raises(TraversalError):
        files.read("../etc/passwd")
    with pytest.raises(NotDirectoryError):
        files.read("file/below")
    with pytest.raises(DirectoryError):
        files.read(".")
    with pytest.raises(ExistsError):
        files.write("file", "y", mode="create")
    with pytest.raises(TooLargeError):
        files.read("file", most=0)
    files.write("file", "y", mode="append")
    assert files.read("file") == "xy"


def test_full_space_is_a_quota_error(provider: str) -> None:
    policy = {"defaults": {"max_memory_mb": 256}, "limits": {"max_disk_mb": 4}}
    with Sandbox(policy, provider=provider) as sandbox:
        sandbox.files.write("small", b"x" * (1 << 20))
        with pytest.raises(QuotaError):
            sandbox.files.write("large", b"x" * (8 << 20))


def test_watch_reports_changes_of_programs(sandbox: Sandbox) -> None:
    changes = sandbox.files.watch(".")
    sandbox.run("echo x > new")
    change = next(iter(changes))
    assert (change.type, change.path) == ("created", "new")


def test_trees_are_uploaded_and_downloaded(sandbox: Sandbox, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "file").write_bytes(b"\x00" * 500_000)
    sandbox.files.upload(tree)
    assert sandbox.run("wc -c < tree/below/file").stdout.strip() == "500000"
    sandbox.files.download("tree", tmp_path / "out")
    assert (tmp_path / "out" / "tree" / "below" / "file").read_bytes() == b"\x00" * 500_000


def test_download_refuses_links_that_lead_out(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.run("mkdir good bad && echo x > good/file && ln -s /etc/passwd bad/link", check=True)
    sandbox.files.download("good", tmp_path)
    assert (tmp_path / "good" / "file").read_text() == "x\n"
    with pytest.raises(ArchiveError):
        sandbox.files.download("bad", tmp_path)
    assert not (tmp_path / "bad" / "link").is_symlink()


def test_async_files_mirror_them(provider: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncSandbox(provider=provider) as sandbox:
            files = sandbox.files
            await files.write("a/b", "x")
            assert await files.read("a/b") == "x"
            assert [entry.path for entry in await files.list("a")] == ["b"]
            changes = await files.watch("a")
            await files.move("a/b", "a/c")
            first = await asyncio.wait_for(changes.__anext__(), 20)
            assert first.path in ("b", "c")
            await files.download("a", tmp_path)
            assert await files.exists("a/c") and await files.remove("a")

    asyncio.run(work())
    assert (tmp_path / "a" / "c").read_text() == "x"


def test_cancelled_upload_ends_and_leaves_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = tmp_path / "archives"
    archives.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(archives))
    with open(tmp_path / "large", "wb") as large:
        large.truncate(2 << 30)

    async def work() -> None:
        async with AsyncSandbox() as sandbox:
            task = asyncio.create_task(sandbox.files.upload(tmp_path / "large"))
            while not any(entry.stat().st_size for entry in archives.iterdir()):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert list(archives.iterdir()) == []
            assert await sandbox.files.list() == []

    asyncio.run(asyncio.wait_for(work(), 60))


def test_cancelled_download_ends_before_the_file_does(tmp_path: Path) -> None:
    local = tmp_path / "large"

    async def work() -> None:
        async with AsyncSandbox() as sandbox:
            await sandbox.run("truncate -s 2G large", check=True)
            task = asyncio.create_task(sandbox.files.download("large", tmp_path))
            while not (local.exists() and local.stat().st_size):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            size = local.stat().st_size
            await asyncio.sleep(0.3)
            assert local.stat().st_size == size < 2 << 30
            assert (await sandbox.run(["true"])).ok

    asyncio.run(asyncio.wait_for(work(), 60))
    local.unlink()

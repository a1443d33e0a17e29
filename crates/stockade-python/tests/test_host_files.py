"""Directories of the host that code in a sandbox has filled."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agent_sandbox import _output
from agent_sandbox._output import StagedOutput
from stockade import _beneath
from stockade.simple import FilesystemSandbox

_MIB = 1024 * 1024

# Deeper than the stack of the interpreter, and than the usual limit of descriptors.
_DEPTH = 1500

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only the output of root is copied")


def nest(place: Path, depth: int = _DEPTH) -> list[str]:
    """Makes directories inside of each other, the last with a file, whose names it returns."""
    at = os.open(place, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    file = os.open("last", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at)
    os.write(file, b"deep")
    os.close(file)
    os.close(at)
    return ["d"] * depth + ["last"]


@only_root
def test_removed_stage_removes_no_file_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("k")
    output = StagedOutput(str(tmp_path), _MIB)
    output.remove()
    output.take()
    assert (tmp_path / "kept").read_text() == "k" and not os.path.exists(output.place)


@only_root
def test_stage_removed_during_a_copy_removes_no_file_of_the_caller(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / str(number)).write_text("k")
    output = StagedOutput(str(tmp_path), _MIB)
    ready = threading.Event()

    def take() -> None:
        ready.set()
        for _ in range(5):
            output.take()

    thread = threading.Thread(target=take)
    thread.start()
    assert ready.wait(20)
    output.remove()
    thread.join(60)
    assert len(list(tmp_path.iterdir())) == 500 and not os.path.exists(output.place)


@only_root
def test_only_a_name_that_is_missing_inside_is_removed_outside(tmp_path: Path) -> None:
    for name in ("link", "gone", "d/below"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("k")
    output = StagedOutput(str(tmp_path), _MIB)
    place = Path(output.place)
    (place / "gone").unlink()
    (place / "link").unlink()
    (place / "link").symlink_to("/etc/passwd")
    (place / "d").rename(place / "moved")
    (place / "d").symlink_to("moved")
    output.take()
    found = {str(it.relative_to(tmp_path)) for it in tmp_path.rglob("*") if it.is_file()}
    assert found == {"link", "d/below", "moved/below"}
    (place / "link").unlink()
    output.take()
    assert not (tmp_path / "link").exists()
    output.remove()


@only_root
def test_deep_directories_are_copied_and_removed(tmp_path: Path) -> None:
    output = StagedOutput(str(tmp_path), _MIB)
    names = nest(Path(output.place))
    output.take()
    assert _beneath.read(tmp_path, names) == b"deep"
    output.remove()
    assert not os.path.exists(output.place)
    again = StagedOutput(str(tmp_path), _MIB)
    assert _beneath.read(again.place, names) == b"deep"
    again.remove()
    _beneath.remove_tree(tmp_path / "d")
    deeper = StagedOutput(str(tmp_path), _MIB)
    nest(Path(deeper.place), 2100)
    with pytest.raises(RuntimeError, match="more than 2048 deep"):
        deeper.take()
    deeper.remove()
    assert not os.path.exists(deeper.place)


@only_root
def test_sweep_removes_deep_directories_of_a_process_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_output.tempfile, "tempdir", str(tmp_path))
    # No process has a number this large, proc(5).
    left = tmp_path / "stockade-output-4194305-x"
    left.mkdir()
    nest(left)
    (tmp_path / "stockade-output-4194306-x").write_text("a file")
    _output._sweep()
    assert list(tmp_path.iterdir()) == []


def test_deep_directories_are_counted_and_removed(tmp_path: Path) -> None:
    files = FilesystemSandbox(tmp_path / "files")
    nest(files.base_path)
    assert files.total_written == len("deep") and files.write_file("x", "y")
    assert files.delete_file("d") and files.list_directory() == ["x"]
    nest(files.base_path)
    files.cleanup()
    assert not files.base_path.exists()


def test_directory_that_moves_during_a_walk_ends_it(tmp_path: Path) -> None:
    (tmp_path / "base" / "a" / "b").mkdir(parents=True)
    walk = _beneath.walk(tmp_path / "base")
    assert [next(walk)[0] for _ in range(3)] == [[], ["a"], ["a", "b"]]
    (tmp_path / "base" / "a" / "b").rename(tmp_path / "b")
    with pytest.raises(_beneath.LeavesError, match="moved"):
        next(walk)

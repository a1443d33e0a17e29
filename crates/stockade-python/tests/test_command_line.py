"""The command line of the package."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stockade import (
    AsyncSandbox,
    InvalidError,
    NotDirectoryError,
    NotFoundError,
    QuotaError,
    Sandbox,
    TimedOutError,
    TraversalError,
)


def stockade(*words: str, cwd: object = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "stockade", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=cwd)  # type: ignore[call-overload, no-any-return]


def test_module_is_the_command_line(tmp_path: Path) -> None:
    ended = stockade("run", "--json", "--no-record", "--", "echo", "hi", cwd=tmp_path)
    assert (ended.returncode, json.loads(ended.stdout)["stdout"]) == (0, "hi\n")
    refused = stockade("run", "--no-such-flag")
    assert refused.returncode == 125 and "--no-such-flag" in refused.stderr


def test_exit_code_of_a_program_is_that_of_the_command() -> None:
    assert stockade("run", "--no-record", "--", "sh", "-c", "exit 7").returncode == 7


def test_script_of_the_package_is_the_command_line() -> None:
    script = Path(sys.executable).parent / "stockade"
    if not script.exists():
        pytest.skip("the package was not installed with its script")
    ended = subprocess.run([script, "version"], capture_output=True, text=True, timeout=60)
    assert ended.stdout.startswith("stockade ")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A session that the command line holds."""
    monkeypatch.setenv("STOCKADE_STATE", str(tmp_path / "state"))
    created = stockade("create", "--name", "kept")
    assert created.returncode == 0, created.stderr
    yield "kept"
    stockade("rm", "--force", "kept")


def test_session_of_the_command_line_outlives_its_command(session: str) -> None:
    assert stockade("exec", session, "--", "echo", "inside").stdout == "inside\n"


def test_attached_sandbox_is_used_and_left(session: str) -> None:
    assert [listed.name for listed in Sandbox.list()] == [session]
    with Sandbox.attach(session) as sandbox:
        assert sandbox.run_code("print(1)").stdout == "1\n"
        assert sandbox.run(["cat"], stdin="x").stdout == "x"
        out: list[str] = []
        sandbox.run("echo live", on_stdout=out.append)
        assert out == ["live\n"]
        with pytest.raises(TimedOutError):
            sandbox.run(["sleep", "1000"], timeout=0.3)
        handle = sandbox.start(["cat"], stdin=True)
        handle.send_stdin("a\n")
        assert next(iter(handle.stdout)) == "a\n"
        handle.kill()
        assert handle.wait().signal == "SIGKILL"
        assert sandbox.wall.provider == "native"
    assert [listed.name for listed in Sandbox.list()] == [session]
    Sandbox.attach(session).kill()
    assert Sandbox.list() == []
    with pytest.raises(InvalidError, match="kept"):
        Sandbox.attach(session)


def test_files_of_an_attached_sandbox_are_those_that_its_programs_see(
    session: str, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"1" * 3_000_000)
    with Sandbox.attach(session) as sandbox:
        files = sandbox.files
        assert files.write("new/text", "content") == 7
        assert sandbox.run(["cat", "new/text"]).stdout == "content"
        assert files.read("new/text") == "content"
        changes = files.watch("new")
        sandbox.run("echo x > new/seen")
        assert next(iter(changes)).path == "seen"
        assert sorted(entry.path for entry in files.list("new")) == ["seen", "text"]
        files.move("new/seen", "moved")
        assert files.exists("moved") and not files.exists("new/seen")
        files.upload(tree)
        assert sandbox.run("wc -c < tree/a").stdout.strip() == "3000000"
        files.download("tree", tmp_path / "out")
        assert (tmp_path / "out" / "tree" / "a").read_bytes() == b"1" * 3_000_000
        assert files.remove("tree") and not files.remove("tree")
        with pytest.raises(NotFoundError):
            files.read("missing")
        with pytest.raises(NotDirectoryError):
            files.write("moved/below", "x")
        with pytest.raises(TraversalError):
            files.read("../etc/passwd")
        with pytest.raises(QuotaError):
            files.write("large", b"0" * (300 << 20))
        assert not files.exists("large")

    async def read() -> str:
        attached = await AsyncSandbox.attach(session)
        return await attached.files.read("new/text")

    assert asyncio.run(read()) == "content"


def test_cancelled_task_ends_its_program_in_an_attached_sandbox(session: str) -> None:
    async def work() -> None:
        sandbox = await AsyncSandbox.attach(session)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sandbox.run("sleep 1000"), 1)
        assert (await sandbox.run("! pgrep sleep")).ok

    asyncio.run(work())

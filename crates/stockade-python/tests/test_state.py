"""Checkpoints, forks, differences and changes on the host, from Python."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stockade
from stockade import AsyncSandbox, Sandbox


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOCKADE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def project(tmp_path: Path) -> tuple[Path, dict[str, object]]:
    place = tmp_path / "project"
    place.mkdir()
    (place / "file").write_text("one\ntwo\n")
    workspace = {"workspace": {"host": str(place), "mode": "overlay"}}
    return place, {"version": "2", "filesystem": workspace}


def test_sandbox_comes_back_to_a_checkpoint_and_forks_share_nothing() -> None:
    with Sandbox(envs={"COLOUR": "blue"}) as sandbox:
        sandbox.run("echo base > file", check=True)
        kept = sandbox.checkpoint("first")
        assert kept.reference == f"{sandbox.label}/first" and kept.paused_us > 0
        sandbox.run("rm file; echo more > more", check=True)
        with sandbox.fork("first") as fork, sandbox.fork() as now:
            fork.run("echo own > own", check=True)
            assert fork.run("cat file; echo $COLOUR").stdout == "base\nblue\n"
            assert now.run("ls").stdout == "more\n"
        sandbox.restore("first")
        assert sandbox.run("ls; cat file").stdout == "file\nbase\n"
        sandbox.discard()
        assert sandbox.run("ls").stdout == ""
        assert [it.name for it in sandbox.checkpoints()] == ["first"]
    stockade.remove_checkpoint(kept.reference)
    assert stockade.checkpoints() == []


def test_changes_are_shown_and_reach_the_host_only_with_consent(tmp_path: Path) -> None:
    place, policy = project(tmp_path)
    with Sandbox(policy) as sandbox:
        sandbox.run("sed -i s/two/TWO/ file; echo '{}' > package.json; mkfifo pipe", check=True)
        changes = {it.path: it for it in sandbox.diff()}
        assert "-two\n+TWO\n" in changes["file"].patch
        assert changes["package.json"].flag and changes["file"].flag is None
        dry = {it.path: it.verdict for it in sandbox.apply(dry_run=True)}
        assert dry == {"file": "applied", "package.json": "flagged", "pipe": "refused"}
        assert (place / "file").read_text() == "one\ntwo\n"
        sandbox.apply(accept=["package.json"])
        assert (place / "file").read_text() == "one\nTWO\n"
        assert (place / "package.json").exists() and not (place / "pipe").exists()
    assert stockade.checkpoints() == []


def test_async_sandbox_has_the_same(tmp_path: Path) -> None:
    place, policy = project(tmp_path)

    async def work() -> None:
        async with AsyncSandbox(policy) as sandbox:
            await sandbox.run("echo new > new", check=True)
            await sandbox.checkpoint("first")
            await sandbox.run("rm new", check=True)
            async with await sandbox.fork("first") as fork:
                assert (await fork.run("cat new")).stdout == "new\n"
            await sandbox.restore("first")
            assert [it.path for it in await sandbox.diff()] == ["new"]
            applied = await sandbox.apply(only=["new"])
            assert [(it.path, it.verdict) for it in applied] == [("new", "applied")]
            await sandbox.discard()
            assert (await sandbox.run("cat file")).stdout == "one\ntwo\n"

    asyncio.run(work())
    assert (place / "new").read_text() == "new\n"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A session that the command line holds."""
    monkeypatch.setenv("STOCKADE_STATE", str(tmp_path / "state"))
    place, _ = project(tmp_path)
    stockade_command("create", "--name", "kept", "--workspace", str(place), "--env", "COLOUR=blue")
    yield "kept"
    for listed in Sandbox.list():
        stockade_command("rm", "--force", listed.name)


def stockade_command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "stockade", *words], check=True, timeout=120)


def test_attached_sandbox_comes_back_to_a_checkpoint_and_is_forked(
    session: str, tmp_path: Path
) -> None:
    with Sandbox.attach(session) as sandbox:
        sandbox.run("echo base > new", check=True)
        kept = sandbox.checkpoint("first")
        assert kept.reference == "kept/first" and kept.paused_us > 0
        assert [it.name for it in sandbox.checkpoints()] == ["first"]
        sandbox.run("rm new; echo more > more", check=True)
        assert [it.path for it in sandbox.diff()] == ["more"]
        assert sorted(it.path for it in sandbox.diff("first")) == ["more", "new"]
        with sandbox.fork("first") as fork:
            assert fork.run("cat new; echo $COLOUR").stdout == "base\nblue\n"
            fork.run("echo own > own; rm new", check=True)
            # A fork knows the checkpoints of its first session.
            fork.restore("first")
            assert fork.run("ls").stdout == "file\nnew\n"
            fork.kill()
        with sandbox.fork() as now:
            assert now.run("ls").stdout == "file\nmore\n"
            now.kill()
        assert [it.name for it in Sandbox.list()] == [session]
        sandbox.restore("first")
        assert sandbox.run("cat new").stdout == "base\n"
        applied = sandbox.apply(only=["new"])
        assert [(it.path, it.verdict) for it in applied] == [("new", "applied")]
        assert (tmp_path / "project" / "new").read_text() == "base\n"
        sandbox.discard()
        assert sandbox.run("cat file").stdout == "one\ntwo\n"
        with pytest.raises(stockade.StateError, match="exists already"):
            sandbox.checkpoint("first")
        with pytest.raises(stockade.StateError, match="not a valid name"):
            sandbox.checkpoint("../x")
        for attempt in (sandbox.restore, sandbox.fork):
            with pytest.raises(stockade.StateError, match="no checkpoint"):
                attempt("second")
        sandbox.restore("first")
        files = sandbox.run("ls && cat file").stdout
        sandbox.run("echo other > file", check=True)
        sandbox.restore("first", any_policy=True)
        assert sandbox.run("ls && cat file").stdout == files != ""
    # Only the named one is left.
    assert [it.name for it in stockade.checkpoints()] == ["first"]


def test_command_line_restores_a_checkpoint_of_python_by_its_reference(
    session: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('version: "2"\nlimits: { max_pids: 30 }\n')
    with Sandbox(policy) as sandbox:
        sandbox.run("echo from python > note", check=True)
        kept = sandbox.checkpoint("first")
    stockade_command("create", "--name", "plain", "--policy", str(policy))
    stockade_command("restore", "plain", kept.reference)
    assert Sandbox.attach("plain").run("cat note").stdout == "from python\n"
    # A session with another policy is refused.
    with pytest.raises(stockade.StateError, match="another policy"):
        Sandbox.attach(session).restore(kept.reference)
    # Its files alone are taken when the caller says so.
    stockade_command("create", "--name", "smaller", "--memory", "300m")
    smaller = Sandbox.attach("smaller")
    with pytest.raises(stockade.StateError, match="another policy"):
        smaller.restore(kept.reference)
    smaller.restore(kept.reference, any_policy=True)
    assert smaller.run("cat note").stdout == "from python\n"


def test_attached_async_sandbox_has_the_same(session: str) -> None:
    async def work() -> None:
        sandbox = await AsyncSandbox.attach(session)
        await sandbox.run("echo base > new", check=True)
        await sandbox.checkpoint("first")
        await sandbox.run("rm new", check=True)
        fork = await sandbox.fork("first")
        assert (await fork.run("cat new")).stdout == "base\n"
        await fork.kill()
        await sandbox.restore("first")
        assert [it.path for it in await sandbox.diff()] == ["new"]

    asyncio.run(work())


def test_files_leave_and_come_back_in_a_file(tmp_path: Path) -> None:
    now, kept = tmp_path / "now.tar.zst", tmp_path / "first.tar.zst"
    with Sandbox() as sandbox:
        sandbox.run("echo base > file", check=True)
        first = sandbox.checkpoint("first")
        sandbox.run("echo more >> file", check=True)
        sandbox.export(now)
        sandbox.export(str(kept), "first")
        with pytest.raises(stockade.StateError, match="first.tar.zst"):
            sandbox.export(kept, "first")
        with pytest.raises(stockade.StateError, match="no checkpoint"):
            sandbox.export(tmp_path / "none.tar.zst", "second")
        stockade.export_checkpoint(first.reference, tmp_path / "again.tar.zst")
    assert now.stat().st_mode & 0o777 == 0o600 and not (tmp_path / "none.tar.zst").exists()
    assert stockade.checkpoints() == [first], "only the named one is left"
    stockade.remove_checkpoint(first.reference)
    assert stockade.import_checkpoint(kept).reference == first.reference
    moved = stockade.import_checkpoint(str(now), "brought/now")
    assert (moved.session, moved.name, moved.entries) == ("brought", "now", first.entries)
    with Sandbox() as other:
        other.restore(moved.reference)
        assert other.run("cat file").stdout == "base\nmore\n"
        other.restore(first.reference)
        assert other.run("cat file").stdout == "base\n"
    with pytest.raises(stockade.StateError, match="exists already"):
        stockade.import_checkpoint(now, "brought/now")
    with pytest.raises(stockade.InvalidError, match="not a valid name"):
        stockade.import_checkpoint(now, "../now")
    broken = tmp_path / "broken.tar.zst"
    broken.write_bytes(now.read_bytes()[:-200])
    with pytest.raises(stockade.StateError):
        stockade.import_checkpoint(broken, "broken/now")
    assert [it.reference for it in stockade.checkpoints("broken")] == []


def test_async_sandbox_writes_its_files_to_a_file(tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncSandbox() as sandbox:
            await sandbox.run("echo base > file", check=True)
            await sandbox.checkpoint("first")
            await sandbox.run("rm file", check=True)
            await sandbox.export(tmp_path / "first.tar.zst", "first")
            await sandbox.export(tmp_path / "now.tar.zst")
            assert [it.name for it in await sandbox.checkpoints()] == ["first"]

    asyncio.run(work())
    for name, files in (("first", "file\n"), ("now", "")):
        read = stockade.import_checkpoint(tmp_path / f"{name}.tar.zst", f"brought/{name}")
        with Sandbox() as sandbox:
            sandbox.restore(read.reference)
            assert sandbox.run("ls").stdout == files


def test_files_of_an_attached_sandbox_pass_to_one_of_this_process(
    session: str, tmp_path: Path
) -> None:
    stockade_command("create", "--name", "plain")
    with Sandbox.attach("plain") as attached:
        attached.run("echo there > new", check=True)
        attached.export(tmp_path / "there.tar.zst")
    # What the command line writes is read here, and the other way.
    stockade_command("import", str(tmp_path / "there.tar.zst"), "--as", "line/there")
    with Sandbox() as sandbox:
        sandbox.restore("line/there", any_policy=True)
        assert sandbox.run("cat new").stdout == "there\n"


def test_mistakes_have_their_exceptions() -> None:
    with Sandbox() as sandbox:
        sandbox.checkpoint("first")
        with pytest.raises(stockade.StateError, match="exists already"):
            sandbox.checkpoint("first")
        with pytest.raises(stockade.InvalidError, match="not a valid name"):
            sandbox.checkpoint("../x")
        with pytest.raises(stockade.StateError, match="no checkpoint"):
            sandbox.restore("second")
        running = sandbox.start(["sleep", "30"])
        with pytest.raises(stockade.StateError, match="programs run"):
            sandbox.restore("first")
        running.kill()
        running.wait()
        other = {"version": "2", "limits": {"max_pids": 20}}
        with Sandbox(other) as narrow:
            with pytest.raises(stockade.StateError, match="another policy"):
                narrow.restore(f"{sandbox.label}/first")
            narrow.restore(f"{sandbox.label}/first", any_policy=True)

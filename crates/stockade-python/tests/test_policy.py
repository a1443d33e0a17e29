"""Policies and what a host can enforce."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade import AsyncSandbox, InvalidError, Policy, PolicyError, Sandbox


def test_policy_file_is_loaded_with_paths_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("shown")
    file = tmp_path / "p.yaml"
    file.write_text("name: mine\nfilesystem: {read: [{host: data, guest: /input}]}\n")
    assert Policy.load(file).name == "mine"
    with Sandbox(policy=str(file), record=tmp_path.parent / "elsewhere") as sandbox:
        assert sandbox.run(["cat", "/input/x"]).stdout == "shown"


def test_mistakes_name_their_line_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("netwrk_allowlist: []\n")
    with pytest.raises(PolicyError, match="netwrk_allowlist") as raised:
        Policy.load(file)
    assert [mistake["line"] for mistake in raised.value.details] == [1]
    with pytest.raises(PolicyError, match="cannot read"):
        Policy.load(tmp_path / "absent")


def test_policy_answers_why() -> None:
    policy = Policy.build(network_allowlist=["api.example.com"], tool_allowlist=["search"])
    allowed, denied = policy.why(host="api.example.com:443"), policy.why(host="example.com")
    assert allowed and allowed.verdict == "allow"
    assert not denied and "network_allowlist" in denied.change
    assert policy.why(tool="search") and not policy.why(tool="delete", arguments={"a": 1})
    assert policy.why(command=["ls"]) and policy.why(code="print(1)")
    assert policy.why(path="/workspace/x", write=True) and not policy.why(path="/etc/x", write=True)
    assert not policy.why(host="api.example.com", address="10.0.0.1")
    with pytest.raises(InvalidError, match="one question"):
        policy.why(host="a.example", tool="b")


def test_combined_policy_allows_what_both_allow() -> None:
    one = Policy.build(network_allowlist=["a.example", "b.example"])
    other = Policy.build(network_allowlist=["b.example", "c.example"])
    both = one & other
    asked = {host: bool(both.why(host=host)) for host in ["a.example", "b.example", "c.example"]}
    assert asked == {"a.example": False, "b.example": True, "c.example": False}


def test_preset_and_dictionary_show_every_default() -> None:
    assert Policy.preset("strict").name == "strict"
    assert "timeout_seconds" in Policy.preset().to_dict()["defaults"]
    assert "timeout_seconds" in str(Policy.parse("{}"))
    with pytest.raises(InvalidError, match="lax"):
        Policy.preset("lax")


def test_policy_file_that_could_be_changed_from_inside_is_refused(tmp_path: Path) -> None:
    file, work = tmp_path / "p.yaml", tmp_path / "work"
    work.mkdir()
    text = "filesystem: {{workspace: {{host: {}, mode: write}}}}\n"
    file.write_text(text.format("work"))
    with Sandbox(str(file)) as sandbox:
        assert sandbox.run("echo b > /workspace/other").ok
    assert (work / "other").read_text() == "b\n"
    (work / "p.yaml").write_text(text.format("."))
    with pytest.raises(InvalidError, match="can be written from inside"):
        Sandbox(str(work / "p.yaml"))


def test_record_is_hidden_inside_and_refused_where_it_could_be_changed(tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("x")
    policy = {"filesystem": {"read": [{"host": str(tmp_path), "guest": "/input"}]}}
    with Sandbox(policy, record=tmp_path / "records") as sandbox:
        assert sandbox.run("ls /input").stdout.split() == ["records", "seen"]
        assert sandbox.run("ls -A /input/records").stdout == ""
    assert list((tmp_path / "records").iterdir())
    policy = {"filesystem": {"write": [{"host": str(tmp_path), "guest": "/input"}]}}
    with pytest.raises(InvalidError, match="could be changed from inside"):
        Sandbox(policy, record=tmp_path / "records")
    with Sandbox(policy, record=False) as sandbox:
        with pytest.raises(stockade.RecordError):
            list(sandbox.events())


def test_doctor_names_every_wall_and_why_it_cannot_run() -> None:
    walls = {wall.provider: wall for wall in stockade.doctor()}
    assert walls["native"].built_in
    for wall in walls.values():
        assert wall.usable == (wall.reason is None)


def test_rules_see_the_context_of_the_sandbox_and_of_each_execution() -> None:
    def rule(name: str, field: str, value: str) -> dict[str, object]:
        condition = {"field": field, "operator": "eq", "value": value}
        return {"name": name, "condition": condition, "action": "deny"}

    policy = Policy.build(
        defaults={"action": "allow"},
        rules=[rule("no-draft", "state", "draft"), rule("no-eve", "agent_id", "eve")],
    )
    assert policy.why(code="1") and not policy.why(code="1", context={"state": "draft"})
    with Sandbox(policy, context={"state": "draft"}) as sandbox:
        with pytest.raises(stockade.DeniedError, match="no-draft"):
            sandbox.run_code("print(1)")
    own = {"agent_id": "bob", "session_id": "one", "team": "blue"}
    with Sandbox(policy, context=own) as sandbox:
        assert sandbox.run_code("print(1)", context={"state": "final", **own}).ok
        with pytest.raises(stockade.DeniedError, match="no-draft"):
            sandbox.run(["true"], context={"state": "draft"})
        for other in ({"agent_id": "eve"}, {"session_id": "two"}, {"team": "red"}):
            with pytest.raises(InvalidError, match="of the sandbox cannot be replaced"):
                sandbox.run_code("print(1)", context=other)
    with Sandbox(policy) as sandbox:
        with pytest.raises(stockade.DeniedError, match="no-eve"):
            sandbox.run(["true"], context={"agent_id": "eve"})
        with pytest.raises(InvalidError, match="cannot be replaced"):
            sandbox.run_code("print(1)", context={"code": "harmless"})
        with pytest.raises(InvalidError, match="cannot be JSON"):
            sandbox.run_code("print(1)", context={"state": object()})


def test_credential_passes_only_by_its_name() -> None:
    with pytest.raises(InvalidError, match="API_KEY"):
        Sandbox(envs={"API_KEY": "k"}).run(["true"])
    with Sandbox(envs={"API_KEY": "k"}, credentials=["API_KEY"]) as sandbox:
        assert sandbox.run("echo $API_KEY").stdout == "k\n"


VALUE = "canary-5d0c7f"
SHOW = "import os; print(os.environ.get('API' + '_KEY', 'unset'))"


def test_credential_of_one_execution_is_recorded_by_name_and_reaches_no_other(
    provider: str, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"envs": {"API_KEY": VALUE, "PLAIN": "1"}, "credentials": ["API_KEY"]}
    with Sandbox(provider=provider, record=tmp_path) as sandbox:
        with pytest.raises(InvalidError, match="API_KEY") as refused:
            sandbox.run(["true"], envs={"API_KEY": VALUE})
        assert "credentials=[NAME]" in str(refused.value) and VALUE not in str(refused.value)
        for asked in ("LD_PRELOAD", "HTTPS_PROXY", "A B"):
            with pytest.raises(InvalidError, match=asked) as refused:
                sandbox.run(["true"], envs={asked: VALUE}, credentials=[asked])
            assert VALUE not in str(refused.value)
        with pytest.raises(InvalidError, match="list of names"):
            sandbox.run(["true"], envs={"API_KEY": VALUE}, credentials="API_KEY")
        assert sandbox.run_code(SHOW, **own).stdout == f"{VALUE}\n"
        assert sandbox.run_code(SHOW).stdout == "unset\n"
        assert sandbox.run(["python3", "-c", SHOW], **own).stdout == f"{VALUE}\n"
        assert sandbox.start(["python3", "-c", SHOW], **own).wait().stdout == f"{VALUE}\n"
        assert sandbox.start_code(SHOW, **own).wait().stdout == f"{VALUE}\n"
        with sandbox.context() as context:
            assert context.run(SHOW, **own).stdout == f"{VALUE}\n"
            assert context.run(SHOW).stdout == "unset\n"
        with sandbox.context(**own) as context:
            assert context.run(SHOW).stdout == f"{VALUE}\n"
    (record,) = tmp_path.glob("*.jsonl")
    text = record.read_text()
    assert VALUE not in text and text.count('"variables":["API_KEY","PLAIN"]') == 6


def test_async_execution_has_credentials_of_its_own() -> None:
    own: dict[str, Any] = {"envs": {"API_KEY": VALUE}, "credentials": ["API_KEY"]}

    async def work() -> list[str]:
        async with AsyncSandbox() as sandbox:
            ran = [await sandbox.run(["python3", "-c", SHOW], **own)]
            ran.append(await sandbox.run_code(SHOW, **own))
            ran.append(await (await sandbox.start(["python3", "-c", SHOW], **own)).wait())
            ran.append(await (await sandbox.start_code(SHOW, **own)).wait())
            async with await sandbox.context(**own) as context:
                ran.append(await context.run(SHOW))
                ran.append(await context.run(SHOW, **own))
            ran.append(await sandbox.run_code(SHOW))
            return [it.stdout for it in ran]

    assert asyncio.run(work()) == [f"{VALUE}\n"] * 6 + ["unset\n"]


def test_report_of_one_wall_is_that_of_the_doctor() -> None:
    walls = {wall.provider: wall for wall in stockade.doctor()}
    assert stockade.wall_report("native") == walls["native"]
    assert not stockade.wall_report("hyperlight").built_in
    with pytest.raises(stockade.UnavailableError, match="paper"):
        stockade.wall_report("paper")
    with pytest.raises(InvalidError, match="no runtime is called"):
        stockade.wall_report("docker", runtime="paper")

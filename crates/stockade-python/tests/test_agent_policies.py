"""Policies of ``agent_sandbox``: documents, files, texts and objects, with and without the toolkit."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import make, serving
from conftest import python

import stockade
from agent_sandbox import NonoSandboxProvider, SandboxConfig, nono_config_from_policy
from agent_os.policies import PolicyDocument

EXTRAS = {"azure", "docker", "full", "hyperlight", "nono", "policy"}
"""The names in the install lines of agt-sandbox."""

HAS_TOOLKIT = importlib.util.find_spec("hypervisor") is not None

RULE = {
    "name": "deny-shell-out",
    "condition": {"field": "code", "operator": "contains", "value": "subprocess"},
    "action": "deny",
    "priority": 100,
    "message": "shell-out blocked by research-agent policy",
}
YAML = """
name: research-agent
version: "2"
defaults: {action: allow, max_cpu: 1.0, max_memory_mb: 256, timeout_seconds: 20}
rules:
  - name: deny-shell-out
    condition: {field: code, operator: contains, value: subprocess}
    action: deny
    priority: 100
    message: "shell-out blocked by research-agent policy"
"""


def documents(place: Path) -> dict[str, Any]:
    """The same policy in every form."""
    file = place / "policy.yaml"
    file.write_text(YAML)
    defaults = {"action": "allow", "max_memory_mb": 256, "timeout_seconds": 20}
    condition = SimpleNamespace(**RULE["condition"])  # type: ignore[arg-type]
    rule = SimpleNamespace(**{**RULE, "condition": condition})
    return {
        "document": PolicyDocument.from_yaml(str(file)),
        "path": file,
        "path as text": str(file),
        "yaml": YAML,
        "mapping": {"name": "m", "defaults": defaults, "rules": [RULE]},
        "object": SimpleNamespace(defaults=SimpleNamespace(**defaults), rules=[rule]),
        "stockade": stockade.Policy.load(file),
    }


def test_policy_of_every_form_allows_and_denies(provider: str, tmp_path: Path) -> None:
    agents = make(provider)
    for form, policy in documents(tmp_path).items():
        made = agents.create_session("a", policy=policy)
        done = agents.execute_code("a", made.session_id, "print(1)")
        assert done.result.stdout == "1\n", form
        with pytest.raises(PermissionError, match="Policy denied: .*shell-out blocked"):
            agents.execute_code("a", made.session_id, "import subprocess; subprocess.run(['ls'])")
        agents.destroy_session("a", made.session_id)


def test_document_without_rules_denies_unless_it_says_allow() -> None:
    agents = NonoSandboxProvider()
    with pytest.raises(PermissionError, match="Policy denied"):
        agents.run_once("a", "print(1)", policy=PolicyDocument(name="closed"))
    allowed = PolicyDocument.model_validate({"defaults": {"action": "allow"}})
    done = agents.run_once("a", "print(1)", policy=allowed)
    assert done.result is not None and done.result.stdout == "1\n"


def test_mistyped_clause_is_an_error(tmp_path: Path) -> None:
    agents = NonoSandboxProvider()
    with pytest.raises(ValueError, match="netwrk_allowlist"):
        agents.create_session("a", policy="name: x\nnetwrk_allowlist: []\n")
    with pytest.raises(ValueError, match="max_memry_mb"):
        agents.create_session("a", policy={"defaults": {"max_memry_mb": 3}})
    with pytest.raises(ValueError, match="cannot read"):
        agents.create_session("a", policy=tmp_path / "absent.yaml")
    with pytest.raises(TypeError, match="cannot be a int"):
        agents.create_session("a", policy=7)


@pytest.mark.parametrize(
    "clause",
    [
        {"command_allowlist": None},
        {"network_blocklist": None},
        {"rules": None},
        {"rules": [{**RULE, "action": None}]},
        {"defaults": {"action": None}},
        {"defaults": {"action": "allow", "network_default": None}},
        {"limits": {"exact": None}},
        {"filesystem": {"hide": None}},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("form", ["mapping", "text", "file", "object"])
def test_clause_without_a_value_is_refused(
    clause: dict[str, Any], form: str, tmp_path: Path
) -> None:
    policy: dict[str, Any] = {"name": "n", "defaults": {"action": "allow"}, **clause}
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(policy))
    forms = {"text": json.dumps(policy), "file": file, "object": SimpleNamespace(**policy)}
    with pytest.raises(ValueError, match=next(reversed(clause))):
        NonoSandboxProvider().create_session("a", policy=forms.get(form, policy))


def test_null_of_a_limit_a_mount_or_a_time_is_its_default() -> None:
    limits = {"max_cpu": None, "max_memory_mb": None, "timeout_seconds": None}
    policy = {
        "defaults": {"action": "allow", **limits},
        "limits": {"max_pids": None},
        "scope": None,
        "sandbox_mounts": {"input_dir": None, "output_dir": None},
        "rules": [{**RULE, "dynamic_condition": None}],
    }
    agents, config = NonoSandboxProvider(), SandboxConfig(memory_mb=64, timeout_seconds=9)
    for form in (policy, json.dumps(policy)):
        made = agents.create_session("a", policy=form, config=config)
        session = agents._registry.find("a", made.session_id)
        assert (session.timeout, session.memory_mb) == (9, 64)
        with pytest.raises(PermissionError, match="shell-out blocked"):
            agents.execute_code("a", made.session_id, "import subprocess")
        agents.destroy_session("a", made.session_id)


def test_document_is_written_and_read_again(tmp_path: Path) -> None:
    document = PolicyDocument.model_validate(
        {"name": "n", "rules": [RULE], "network_allowlist": ["*.example.com"], "version": "2"}
    )
    document.to_yaml(tmp_path / "p.yaml")
    document.to_json(tmp_path / "p.json")
    assert PolicyDocument.from_yaml(tmp_path / "p.yaml") == document
    assert PolicyDocument.from_json(tmp_path / "p.json") == document
    assert json.loads((tmp_path / "p.json").read_text())["rules"][0]["action"] == "deny"
    assert document.rules[0].condition.field == "code" and document.sandbox_mounts.input_dir is None
    assert document.defaults.max_tool_calls == 10 and document.defaults.action.value == "deny"


@pytest.mark.skipif(HAS_TOOLKIT, reason="the toolkit checks its own documents")
def test_unknown_key_of_a_document_is_refused() -> None:
    with pytest.raises(ValueError, match="has no naem"):
        PolicyDocument.model_validate({"naem": "x"})
    with pytest.raises(ValueError, match="is incomplete"):
        PolicyDocument.model_validate({"rules": [{"name": "x"}]})


def test_toolkit_comes_before_the_documents_of_stockade() -> None:
    module = sys.modules[PolicyDocument.__module__]
    assert ("agent_sandbox" in module.__name__) is not HAS_TOOLKIT


def test_policy_file_that_the_session_could_change_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("sandbox_mounts: {output_dir: .}\n")
    with pytest.raises((ValueError, RuntimeError), match="written from inside|visible inside"):
        NonoSandboxProvider().create_session("a", policy=file)


def test_limits_of_the_config_apply_where_the_policy_is_silent() -> None:
    agents = NonoSandboxProvider()
    policy = {"defaults": {"action": "allow", "timeout_seconds": 30}}
    config = SandboxConfig(memory_mb=64, timeout_seconds=1)
    made = agents.create_session("a", policy=policy, config=config)
    session = agents._registry.find("a", made.session_id)
    assert (session.timeout, session.memory_mb) == (30, 64)
    agents.destroy_session("a", made.session_id)


def test_lists_in_both_policy_and_config_are_refused() -> None:
    agents = NonoSandboxProvider()
    config = SandboxConfig(network_allowlist=["a.example"])
    with pytest.raises(ValueError, match="both the policy and the config"):
        agents.create_session("a", policy={"network_allowlist": ["b.example"]}, config=config)
    with pytest.raises(ValueError, match="decides everything"):
        agents.create_session("a", policy=stockade.Policy.build(), config=config)


def test_rule_about_the_action_keeps_its_meaning() -> None:
    agents = NonoSandboxProvider()
    condition = {"field": "action", "operator": "eq", "value": "execute"}
    rule = {"name": "all", "condition": condition, "action": "allow"}
    done = agents.run_once("a", "print(1)", policy={"rules": [rule]})
    assert done.result is not None and done.result.success


def test_rule_sees_agent_and_context() -> None:
    agents = NonoSandboxProvider()
    task = {"field": "task", "operator": "eq", "value": "report"}
    agent = {"field": "agent_id", "operator": "eq", "value": "root"}
    rules = [
        {"name": "no-root", "condition": agent, "action": "deny", "priority": 9},
        {"name": "report", "condition": task, "action": "allow"},
    ]
    policy = {"rules": rules}
    done = agents.run_once("a", "print(1)", policy=policy, context={"task": "report"})
    assert done.result is not None and done.result.success
    for name, context in [("a", {"task": "other"}), ("a", None), ("root", {"task": "report"})]:
        with pytest.raises(PermissionError):
            agents.run_once(name, "print(1)", policy=policy, context=context)
    with pytest.raises(ValueError, match="plain JSON"):
        agents.run_once("a", "print(1)", policy=policy, context={"task": object()})


def test_judge_of_the_caller_is_asked_too() -> None:
    seen: list[Any] = []

    class Judge:
        def evaluate(self, fields: dict[str, Any]) -> Any:
            seen.append(fields)
            return SimpleNamespace(allowed="secret" not in fields["code"], reason="no secrets")

    agents = NonoSandboxProvider()
    made = agents.create_session("a", runtime=Judge())
    assert agents.execute_code("a", made.session_id, "print(1)").result.success  # type: ignore[union-attr]
    with pytest.raises(PermissionError, match="no secrets"):
        agents.execute_code("a", made.session_id, "print('secret')")
    assert [it["action"] for it in seen] == ["execute", "execute"]
    agents.destroy_session("a", made.session_id)
    with pytest.raises(RuntimeError, match="neither evaluate nor pre_tool_call"):
        agents.create_session("a", runtime=object())


ENTRIES: dict[str, Any] = {
    "execute_code": lambda it, session, word: it.execute_code("a", session, f"print('{word}')"),
    "execute_code_async": lambda it, session, word: asyncio.run(
        it.execute_code_async("a", session, f"print('{word}')")
    ),
    "run": lambda it, session, word: it.run("a", ["echo", word]),
    "run with an id": lambda it, session, word: it.run("a", ["echo", word], session_id=session),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_judge_is_asked_by_every_entry_point(provider: str, entry: str) -> None:
    seen: list[Any] = []

    class Judge:
        def evaluate(self, fields: dict[str, Any]) -> Any:
            seen.append(fields)
            return SimpleNamespace(allowed="secret" not in fields["code"], reason="no secrets")

    agents = make(provider)
    made = agents.create_session("a", runtime=Judge())
    ENTRIES[entry](agents, made.session_id, "open word")
    with pytest.raises(PermissionError, match="no secrets"):
        ENTRIES[entry](agents, made.session_id, "secret word")
    assert len(seen) == 2 and len(agents.list_executions("a", made.session_id)) == 1
    asked = {"agent_id": "a", "session_id": made.session_id, "action": "execute"}
    asked["code"] = "print('secret word')"
    if entry.startswith("run"):
        asked = {**asked, "command": ["echo", "secret word"], "code": "echo 'secret word'"}
    assert seen[-1] == asked
    agents.destroy_session("a", made.session_id)


def test_judge_sees_the_name_of_the_tool() -> None:
    class Judge:
        def evaluate(self, fields: dict[str, Any]) -> Any:
            is_allowed = fields.get("tool_name") == "search"
            return SimpleNamespace(allowed=is_allowed, reason="not this tool")

    agents = NonoSandboxProvider()
    made = agents.create_session("a", runtime=Judge())
    context = {"tool_name": "search"}
    assert agents.execute_code("a", made.session_id, "print(1)", context=context).result.success  # type: ignore[union-attr]
    for other in ({"tool_name": "delete"}, None):
        with pytest.raises(PermissionError, match="not this tool"):
            agents.execute_code("a", made.session_id, "print(1)", context=other)
    agents.destroy_session("a", made.session_id)


@pytest.mark.skipif(HAS_TOOLKIT, reason="the toolkit has the hypervisor")
def test_ring_that_nothing_enforces_is_refused() -> None:
    with pytest.raises(RuntimeError, match="hypervisor"):
        NonoSandboxProvider().create_session("a", config=SandboxConfig(ring=3))


@pytest.mark.skipif(not HAS_TOOLKIT, reason="needs the hypervisor of the toolkit")
def test_ring_narrows_a_session() -> None:
    models: Any = importlib.import_module("hypervisor.models")
    agents = NonoSandboxProvider()
    ring = models.ExecutionRing.RING_3_SANDBOX
    made = agents.create_session("a", config=SandboxConfig(ring=ring, network_enabled=True))
    assert not agents._registry.find("a", made.session_id).policy.why(host="example.com")
    with pytest.raises(PermissionError, match="Ring enforcement denied subprocess"):
        agents.execute_code("a", made.session_id, "print(1)")
    with pytest.raises(PermissionError, match="Ring enforcement denied subprocess"):
        agents.run("a", ["true"])
    agents.destroy_session("a", made.session_id)
    with pytest.raises(PermissionError, match="Ring enforcement denied subprocess"):
        agents.run("a", ["true"], SandboxConfig(ring=ring))


def test_named_hosts_are_reached_and_no_others(provider: str) -> None:
    agents = make(provider)
    with serving() as (port, seen):
        url = f"http://127.0.0.1:{port}/said"
        policy = {"defaults": {"action": "allow"}, "network_allowlist": [f"127.0.0.1:{port}"]}
        code = "import urllib.request as r; print(r.urlopen({!r}, timeout=10).read().decode())"
        made = agents.create_session("a", policy=policy)
        done = agents.execute_code("a", made.session_id, code.format(url))
        assert done.result.stdout == "served /said\n", done.result
        other = agents.execute_code("a", made.session_id, code.format("http://192.0.2.1/"))
        assert not other.result.success and "403" in other.result.stderr
        agents.destroy_session("a", made.session_id)
        made = agents.create_session("a")
        refused = agents.execute_code("a", made.session_id, code.format(url))
        assert not refused.result.success
        agents.destroy_session("a", made.session_id)
        assert seen == ["/said"]


def test_tools_are_called_by_the_names_of_the_list(provider: str) -> None:
    def fetch(query: str) -> str:
        return f"<{query}>"

    agents = make(provider, tools={"fetch": fetch, "hidden": fetch})
    policy = {"defaults": {"action": "allow"}, "tool_allowlist": ["fetch"]}
    made = agents.create_session("a", policy=policy)
    done = agents.execute_code("a", made.session_id, "print(fetch('x'))")
    assert done.result.stdout == "<x>\n", done.result
    hidden = agents.execute_code("a", made.session_id, "call_tool('hidden', query='x')")
    assert "ToolDenied" in hidden.result.stderr
    agents.destroy_session("a", made.session_id)
    made = agents.create_session("a")
    done = agents.execute_code("a", made.session_id, "print(hidden('y'))")
    assert done.result.stdout == "<y>\n"
    agents.destroy_session("a", made.session_id)
    with pytest.raises(ValueError, match="does not have: other"):
        agents.create_session("a", config=SandboxConfig(tool_allowlist=["other"]))


def test_configs_take_what_a_policy_says(tmp_path: Path) -> None:
    document = PolicyDocument.model_validate(
        {"defaults": {"timeout_seconds": 9}, "sandbox_mounts": {"input_dir": str(tmp_path)}}
    )
    config = nono_config_from_policy(document)
    assert (config.timeout_seconds, config.readonly_paths) == (9, [str(tmp_path)])
    open_one = nono_config_from_policy({"network_allowlist": ["a.example"]})
    assert open_one.allow_outbound and open_one.allowed_hosts == ["a.example"]
    with pytest.raises(ValueError, match="non-empty strings"):
        nono_config_from_policy({"network_allowlist": [""]})


def test_extras_of_old_install_lines_exist_and_need_nothing_more() -> None:
    found = importlib.metadata.metadata("stockade")
    assert EXTRAS <= set(found.get_all("Provides-Extra") or [])
    # Everything is in the wheel.
    assert found.get_all("Requires-Dist") is None

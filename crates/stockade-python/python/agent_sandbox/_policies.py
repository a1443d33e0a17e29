"""Policies of every form, together with a config, as policies of Stockade."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from enum import Enum
from typing import Any, Optional, Union

import stockade
from stockade import Policy

from ._hardening import validate_mount_path
from .sandbox_provider import SandboxConfig

# A session of an agent may take days; Stockade's own default is an hour.
_LONGEST_SECONDS = 2_592_000

# The parts of a policy object, for objects without a dictionary.
_NAMES = ["version", "name", "description", "rules", "defaults", "inherit", "scope"]
_NAMES += ["network_allowlist", "tool_allowlist", "sandbox_mounts"]

# The keys whose null means their default, in addition to `scope`, the limits and the time of rules.
_NULLABLE = {
    "defaults": ["max_cpu", "max_memory_mb", "timeout_seconds", "max_tool_calls"],
    "sandbox_mounts": ["input_dir", "output_dir"],
}

# What a config may say next to a complete policy.
_BESIDES = ["env_vars", "timeout_seconds", "runtime", "read_only_fs"]


def session_policy(
    policy: Any, config: SandboxConfig, tools: Optional[list[str]], network: bool = True
) -> Policy:
    """The policy of a session. What `policy` says wins over the config; `tools` are the provider's,
    None where a list of tools only judges the names in contexts, and without `network` no host is reachable, whatever the policy says.

    `policy` is None, a document of ``agent_os.policies`` or an object like it, a dictionary, the
    path of a file, a YAML text, or a `stockade.Policy`, which says everything.
    """
    if isinstance(policy, Policy):
        return _complete(policy, config, tools)
    said, base, files = written(policy)
    clauses: dict[str, Any] = {"name": "session", **said}
    clauses["rules"] = [_rule(rule) for rule in said.get("rules", [])]
    clauses["defaults"] = _defaults(said, policy is not None, config)
    limits = {"max_output_bytes": config.output_max_bytes}
    limits.update(max_lifetime_seconds=_LONGEST_SECONDS, idle_seconds=_LONGEST_SECONDS)
    # A cancelled execution is reported as ended at once, so it must not run on.
    limits["cancel_grace_seconds"] = 0
    clauses["limits"] = {**limits, **said.get("limits", {})}
    clauses["sandbox_mounts"] = _mounts(said.get("sandbox_mounts", {}), config, base)
    clauses["network_allowlist"] = _list("network_allowlist", said, config)
    named = _list("tool_allowlist", said, config)
    _known(named, tools)
    clauses["tool_allowlist"] = named or ([] if policy is not None else tools or [])
    if not network:
        clauses["network_allowlist"], clauses["defaults"]["network_default"] = [], "deny"
    checked = Policy.parse(json.dumps(clauses), name=str(clauses["name"]), base=base)
    return Policy(checked._checked, files)


def written(policy: Any) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """The clauses that a policy has, the directory of its relative paths, and its files."""
    here = os.getcwd()
    if policy is None:
        return {}, here, ()
    if isinstance(policy, str) and is_text(policy):
        # Checks the whole text, which refuses a clause without a value.
        Policy.parse(policy)
        return _pruned(parsed("policy", policy.encode())), here, ()
    if isinstance(policy, (str, os.PathLike)):
        file = os.path.abspath(policy)
        # Checks the whole file, which names mistakes with their lines.
        checked = Policy.load(file)
        with open(file, "rb") as opened:
            said = _pruned(parsed(os.fspath(policy), opened.read()))
        return said, os.path.dirname(file), checked._files
    said = plain(policy)
    if not isinstance(said, dict):
        kind = type(policy).__name__
        message = f"a policy cannot be a {kind}"
        raise TypeError(f"{message}; pass a PolicyDocument, a path or a YAML text")
    said = _pruned(said)
    _refuse_nothing(said, "")
    return said, here, ()


def is_text(policy: str) -> bool:
    """Whether a string is a YAML text and not the path of a file."""
    return "\n" in policy or ": " in policy or policy.lstrip().startswith("{")


def parsed(name: str, text: bytes) -> Any:
    try:
        return json.loads(stockade._stockade.Policy.written(name, text))
    except stockade._stockade.Failure as failure:
        raise stockade.errors.of_failure(failure) from None


def plain(value: Any) -> Any:
    """Documents, and objects like them, as plain data."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {it.name: plain(getattr(value, it.name)) for it in dataclasses.fields(value)}
    if hasattr(value, "__dict__"):
        return {name: plain(it) for name, it in vars(value).items() if not name.startswith("_")}
    found = {name: getattr(value, name) for name in _NAMES if hasattr(value, name)}
    return {name: plain(it) for name, it in found.items()} or None


def _pruned(said: Any) -> Any:
    """The same without the keys whose null means their default. Without any other key that has no
    value, such as a list, a policy would allow more than it says."""
    if not isinstance(said, dict):
        return said
    pruned = _without_nothing(said, ["scope"])
    for section, names in _NULLABLE.items():
        if section in pruned:
            pruned[section] = _without_nothing(pruned[section], names)
    limits = pruned.get("limits")
    if isinstance(limits, dict):
        names = [name for name in limits if name != "exact"]
        pruned["limits"] = _without_nothing(limits, names)
    rules = pruned.get("rules")
    if isinstance(rules, list):
        pruned["rules"] = [_pruned_rule(rule) for rule in rules]
    return pruned


def _pruned_rule(rule: Any) -> Any:
    pruned = _without_nothing(rule, ["dynamic_condition"])
    if isinstance(pruned, dict) and isinstance(pruned.get("dynamic_condition"), dict):
        when = pruned["dynamic_condition"]
        pruned["dynamic_condition"] = _without_nothing(when, list(when))
    return pruned


def _without_nothing(value: Any, names: list[str]) -> Any:
    """A mapping without those of the named keys that have no value."""
    if not isinstance(value, dict):
        return value
    return {key: it for key, it in value.items() if it is not None or key not in names}


def _refuse_nothing(value: Any, place: str) -> None:
    """Refuses a clause without a value; a rule may compare with nothing."""
    if value is None and not place.endswith(".condition.value"):
        raise ValueError(f"{place} of the policy has no value; remove it, or give it one")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_nothing(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_nothing(item, f"{place}[{index}]")


def _complete(policy: Policy, config: SandboxConfig, tools: Optional[list[str]]) -> Policy:
    """A policy that says everything: a config can add variables and a shorter timeout only."""
    usual = SandboxConfig()
    for it in dataclasses.fields(SandboxConfig):
        if it.name not in _BESIDES and getattr(config, it.name) != getattr(usual, it.name):
            message = f"a stockade.Policy decides everything, so the config cannot set {it.name}"
            raise ValueError(f"{message}; set it in the policy")
    _known(policy.tools, tools)
    return policy


def _defaults(said: dict[str, Any], has_policy: bool, config: SandboxConfig) -> dict[str, Any]:
    opens = config.network_enabled and (
        not config.network_allowlist or config.network_default == "allow"
    )
    usual: dict[str, Union[float, str]] = {
        "max_cpu": config.cpu_limit,
        "max_memory_mb": config.memory_mb,
        "timeout_seconds": config.timeout_seconds,
        "network_default": "allow" if opens and not has_policy else "deny",
    }
    return {**usual, **said.get("defaults", {})}


def _mounts(said: Mapping[str, Any], config: SandboxConfig, base: str) -> dict[str, str]:
    """The mounts with their links resolved."""
    mounts: dict[str, str] = {}
    for name in ("input_dir", "output_dir"):
        path: Optional[str] = said.get(name) or getattr(config, name)
        if path:
            path = os.path.join(base, path)
            validate_mount_path(path, name)
            mounts[name] = os.path.realpath(path)
    unknown = set(said) - {"input_dir", "output_dir"}
    return {**mounts, **{name: said[name] for name in unknown}}


def _list(name: str, said: Mapping[str, Any], config: SandboxConfig) -> list[Any]:
    own = list(getattr(config, name))
    if own and said.get(name):
        raise ValueError(f"both the policy and the config have a {name}; keep one of them")
    if own and said:
        raise ValueError(f"with a policy, {name} belongs into the policy and not into the config")
    return list(said.get(name, own))


def _known(named: list[str], tools: Optional[list[str]]) -> None:
    if tools is None:
        return
    unknown = sorted(set(named) - set(tools))
    if unknown:
        raise ValueError(
            f"tool_allowlist names tools that the provider does not have: {', '.join(unknown)}; "
            "pass them as tools= or remove them from the list"
        )


def _rule(rule: Any) -> Any:
    """A rule with the toolkit's name of the action replaced by that of Stockade."""
    condition = rule.get("condition") if isinstance(rule, dict) else None
    if not isinstance(condition, dict) or condition.get("field") != "action":
        return rule
    value = condition.get("value")
    if isinstance(value, list):
        value = [_action(item) for item in value]
    return {**rule, "condition": {**condition, "value": _action(value)}}


def _action(value: Any) -> Any:
    return "execute_code" if value == "execute" else value

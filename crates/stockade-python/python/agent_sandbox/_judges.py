"""Judges next to the policy: objects that the caller brings, and execution rings."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any, Callable

from .sandbox_provider import SandboxConfig

Judge = Callable[[dict[str, Any]], None]
"""Raises PermissionError if the code of these fields must not run."""


def judge_of(runtime: Any, agent_id: str, session_id: str) -> Judge:
    """The judge behind ``create_session(runtime=...)``: an object with ``evaluate``, one with
    ``pre_tool_call``, or a runtime of the Agent Control Specification."""
    if callable(getattr(runtime, "evaluate", None)):
        return _evaluator(runtime)
    if not callable(getattr(runtime, "pre_tool_call", None)):
        try:
            module = importlib.import_module("agent_control_specification")
        except ImportError as error:
            raise RuntimeError(
                "runtime has neither evaluate nor pre_tool_call, and the package "
                "agent_control_specification, which would adapt it, is not installed"
            ) from error
        runtime = module.HostSession(runtime, agent_id=agent_id, session_id=session_id)
    return _host_session(runtime)


def _evaluator(evaluator: Any) -> Judge:
    def judge(fields: dict[str, Any]) -> None:
        decision = evaluator.evaluate(dict(fields))
        # A decision without the attribute is not a permission.
        if getattr(decision, "allowed", False) is not True:
            raise PermissionError(f"Policy denied: {getattr(decision, 'reason', 'no permission')}")

    return judge


def _host_session(host: Any) -> Judge:
    def judge(fields: dict[str, Any]) -> None:
        call = {"tool_name": "sandbox_execute", "args": dict(fields), "call_id": "execute"}
        verdict = host.pre_tool_call(**call).verdict
        if verdict.decision.applies_transform:
            raise PermissionError("Policy denied: the judge wants other code, which does not run")
        if verdict.decision.permits is not True:
            raise PermissionError(f"Governance denied: {verdict.message or verdict.reason}")

    return judge


def ringed(config: SandboxConfig, agent_id: str) -> tuple[SandboxConfig, list[Judge], bool]:
    """The config that an execution ring narrows, its judge, and whether the network is allowed.

    A ring without the toolkit's hypervisor is refused: nothing would enforce it.
    """
    if config.ring is None:
        return config, [], True
    try:
        enforcer = importlib.import_module("hypervisor.rings.enforcer")
        rings = enforcer.RingEnforcer()
        constraints = rings.get_constraints(config.ring)
    except ImportError as error:
        raise RuntimeError(
            "config.ring needs the hypervisor of agent-governance-toolkit-core, which is not "
            "installed; install it, or leave ring unset"
        ) from error

    def judge(fields: dict[str, Any]) -> None:
        answer = rings.check_resource(config.ring, enforcer.ResourceType.SUBPROCESS)
        if answer.allowed is not True:
            reason = f"Ring enforcement denied subprocess for agent {agent_id!r}: {answer.reason}"
            raise PermissionError(reason)

    if constraints.network_allowed is not True:
        narrowed = replace(config, network_enabled=False, network_allowlist=[])
        return narrowed, [judge], False
    return config, [judge], True

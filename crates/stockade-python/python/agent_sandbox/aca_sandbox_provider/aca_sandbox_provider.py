"""Sessions in sandboxes of Azure Container Apps."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar, Optional

import stockade
from stockade import Azure, Sandbox, WallReport

from .._output import Output
from .._walls import WallProvider
from ..docker_provider.provider import docker_config_from_policy
from ..sandbox_provider import SandboxConfig

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}", re.ASCII)


def aca_config_from_policy(policy: Any, base: SandboxConfig) -> SandboxConfig:
    """A config with what a policy says about limits and the network."""
    return docker_config_from_policy(policy, base)


class ACASandboxProvider(WallProvider):
    """Sessions in Azure Container Apps; each is one sandbox of the service. No other wall takes
    their place. The list of tools judges the ``tool_name`` of contexts, on this host."""

    _wall: ClassVar[str] = "aca"
    _title: ClassVar[str] = "ACASandboxProvider is not available"
    _offers_tools: ClassVar[bool] = False
    # What Azure's library asks for: 1000m and 2048Mi.
    _default_config: ClassVar[SandboxConfig] = SandboxConfig(cpu_limit=1.0, memory_mb=2048)

    def __init__(
        self,
        resource_group: str,
        sandbox_group: str,
        *,
        region: Optional[str] = None,
        endpoint: Optional[str] = None,
        subscription_id: Optional[str] = None,
        credential: Optional[Any] = None,
        disk: str = "ubuntu",
        ensure_group_location: Optional[str] = None,
    ) -> None:
        """Connects to nothing. Without `subscription_id`, ``AZURE_SUBSCRIPTION_ID`` names it; the
        disk must have python3, as ``python-3.13`` does."""
        super().__init__()
        for label, value in [("resource_group", resource_group), ("sandbox_group", sandbox_group)]:
            if not isinstance(value, str) or not _NAME.fullmatch(value):
                message = "must match [a-zA-Z0-9][a-zA-Z0-9_-]{0,62}"
                raise ValueError(f"Invalid {label} '{value}': {message}")
        self._azure = Azure(
            resource_group=resource_group,
            sandbox_group=sandbox_group,
            region=region,
            endpoint=endpoint,
            subscription_id=subscription_id,
            disk=disk,
            ensure_group_location=ensure_group_location,
            credential=credential,
        )

    def egress_decisions(self, agent_id: str, session_id: str) -> list[dict[str, Any]]:
        """The requests that the service allowed and denied, oldest first, from the record of the
        session: each with ``host``, ``method``, ``path`` and ``verdict``."""
        session = self._registry.find(agent_id, session_id)
        events = [it["body"] for it in session.sandbox.events() if it["kind"] == "egress"]
        names = ("host", "method", "path", "verdict")
        return [{name: event.get(name) for name in names} for event in events]

    def close(self) -> None:
        """Ends every session. If some cannot be ended, raises RuntimeError after the others are."""
        failed: list[str] = []
        sessions = list(self._registry.all())
        for session in sessions:
            try:
                self.destroy_session(session.agent_id, session.session_id)
            except Exception as error:
                failed.append(f"{session.agent_id}/{session.session_id}: {error}")
        if failed:
            count = f"{len(failed)} of {len(sessions)} sessions"
            raise RuntimeError(f"cannot end {count}: " + "; ".join(failed))

    def __enter__(self) -> ACASandboxProvider:
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()

    def _report(self) -> WallReport:
        return stockade.wall_report(self._wall, quick=True, azure=self._azure)

    def _open(
        self, policy: stockade.Policy, config: SandboxConfig, context: dict[str, Any]
    ) -> tuple[Sandbox, Output]:
        if policy.tools:
            # The list judges contexts; inside there is no tool to call.
            clauses = {**policy.to_dict(), "tool_allowlist": []}
            policy = stockade.Policy(stockade.Policy.build(**clauses)._checked, policy._files)
        return super()._open(policy, config, context)

    def _session_options(self, context: dict[str, Any]) -> dict[str, Any]:
        labels = {"agent_id": str(context["agent_id"])}
        return {"azure": dataclasses.replace(self._azure, labels=labels)}

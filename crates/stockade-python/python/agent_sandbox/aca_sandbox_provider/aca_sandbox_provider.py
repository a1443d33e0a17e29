"""Sessions in Azure, where Stockade has the wall ``aca``."""

from __future__ import annotations

import os
import re
from typing import Any, ClassVar, Optional

from .._walls import WallProvider
from ..docker_provider.provider import docker_config_from_policy
from ..sandbox_provider import SandboxConfig

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}", re.ASCII)


def aca_config_from_policy(policy: Any, base: SandboxConfig) -> SandboxConfig:
    """A config with what a policy says about limits and the network."""
    return docker_config_from_policy(policy, base)


class ACASandboxProvider(WallProvider):
    """Sessions in Azure Container Apps. `is_available` tells whether this version has them; no
    other wall takes their place."""

    _wall: ClassVar[str] = "aca"
    _title: ClassVar[str] = "ACASandboxProvider is not available"

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
        """Connects to nothing. Without `subscription_id`, ``AZURE_SUBSCRIPTION_ID`` names it."""
        super().__init__()
        for label, value in [("resource_group", resource_group), ("sandbox_group", sandbox_group)]:
            if not isinstance(value, str) or not _NAME.fullmatch(value):
                message = "must match [a-zA-Z0-9][a-zA-Z0-9_-]{0,62}"
                raise ValueError(f"Invalid {label} '{value}': {message}")
        self._resource_group, self._sandbox_group = resource_group, sandbox_group
        self._region, self._endpoint = region, endpoint
        self._subscription_id = subscription_id or os.environ.get("AZURE_SUBSCRIPTION_ID")
        self._credential, self._disk = credential, disk
        self._ensure_group_location = ensure_group_location

    def close(self) -> None:
        """Ends every session."""
        for session in self._registry.all():
            self.destroy_session(session.agent_id, session.session_id)

    def __enter__(self) -> ACASandboxProvider:
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()

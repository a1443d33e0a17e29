"""Azure Container Apps: which sandbox group the managed wall uses."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional


@dataclass(frozen=True)
class Azure:
    """The sandbox group of ``Sandbox(provider="aca")``. What is None comes from the environment."""

    resource_group: Optional[str] = None
    """The resource group, which must exist."""
    sandbox_group: Optional[str] = None
    """The sandbox group."""
    region: Optional[str] = None
    """The region, such as ``eastus2``."""
    endpoint: Optional[str] = None
    """The address of the data plane, instead of the region's; only https."""
    subscription_id: Optional[str] = None
    """The subscription; otherwise ``AZURE_SUBSCRIPTION_ID`` names it."""
    disk: Optional[str] = None
    """The public disk image, which must have python3."""
    ensure_group_location: Optional[str] = None
    """Where to create the sandbox group if it is missing."""
    labels: dict[str, str] = field(default_factory=dict)
    """More labels for the sandbox."""
    credential: Optional[Any] = field(default=None, repr=False)
    """An object with ``get_token(scope)``, as those of azure-identity; otherwise the environment."""

    @property
    def _labels(self) -> list[tuple[str, str]]:
        return [(str(name), str(value)) for name, value in self.labels.items()]

    @property
    def _token(self) -> Optional[Callable[[str], tuple[str, float]]]:
        credential = self.credential
        if credential is None:
            return None

        def token(scope: str) -> tuple[str, float]:
            found = credential.get_token(scope)
            return str(found.token), max(0.0, float(found.expires_on) - time.time())

        return token

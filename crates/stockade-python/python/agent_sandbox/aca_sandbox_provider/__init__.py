"""Sessions in sandboxes of Azure Container Apps."""

from .aca_sandbox_provider import ACASandboxProvider, aca_config_from_policy

__all__ = ["ACASandboxProvider", "aca_config_from_policy"]

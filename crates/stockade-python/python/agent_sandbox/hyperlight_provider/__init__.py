"""Sessions in micro virtual machines of Hyperlight."""

from .config import HyperlightConfig, hyperlight_config_from_policy
from .provider import HyperlightBackend, HyperLightSandboxProvider, SnapshotHandle

__all__ = [
    "HyperLightSandboxProvider",
    "HyperlightBackend",
    "HyperlightConfig",
    "SnapshotHandle",
    "hyperlight_config_from_policy",
]

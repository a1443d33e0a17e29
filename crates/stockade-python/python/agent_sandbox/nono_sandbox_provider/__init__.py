"""Sessions of the native wall, under the names of the provider for nono."""

from .config import (
    NonoConfig,
    default_system_paths,
    nono_config_from_policy,
    policy_yaml_to_nono_config,
)
from .provider import NonoSandboxProvider

__all__ = [
    "NonoConfig",
    "NonoSandboxProvider",
    "default_system_paths",
    "nono_config_from_policy",
    "policy_yaml_to_nono_config",
]

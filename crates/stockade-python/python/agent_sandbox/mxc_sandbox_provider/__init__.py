"""Sessions of the native wall, under the names of the provider for MXC."""

from .config import (
    MxcConfig,
    backend_requires_experimental,
    mxc_config_from_policy,
    policy_to_mxc_json,
    policy_yaml_to_mxc_json,
)
from .provider import MxcSandboxProvider

__all__ = [
    "MxcConfig",
    "MxcSandboxProvider",
    "backend_requires_experimental",
    "mxc_config_from_policy",
    "policy_to_mxc_json",
    "policy_yaml_to_mxc_json",
]

"""Containers of a Docker engine."""

from .provider import DockerSandboxProvider, docker_config_from_policy, has_iptables
from .state import SandboxCheckpoint, SandboxStateManager

__all__ = [
    "DockerSandboxProvider",
    "SandboxCheckpoint",
    "SandboxStateManager",
    "docker_config_from_policy",
    "has_iptables",
]

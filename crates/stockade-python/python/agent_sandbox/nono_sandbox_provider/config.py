"""The config of a session in the words of nono."""

from __future__ import annotations

import copy
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .._egress import add_mounts, apply_policy, check_egress
from .._hardening import sanitize_env_vars
from .._policies import written


def default_system_paths() -> list[str]:
    """The directories of the system, and of this interpreter, that exist."""
    own = [str(Path(sys.executable).resolve().parent.parent), sys.prefix, sys.base_prefix]
    wanted = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", *own]
    return [path for path in dict.fromkeys(wanted) if os.path.exists(path)]


@dataclass
class NonoConfig:
    """What a session may read, write and reach."""

    readonly_paths: list[str] = field(default_factory=list)
    readwrite_paths: list[str] = field(default_factory=list)
    allow_outbound: bool = False
    allowed_hosts: list[str] = field(default_factory=list)
    allow_unrestricted_egress: bool = False
    timeout_seconds: float = 60.0
    env_vars: dict[str, str] = field(default_factory=dict)
    include_system_paths: bool = True

    def __post_init__(self) -> None:
        if self.timeout_seconds <= 0:
            raise ValueError("timeout_seconds must be positive")
        check_egress(self)

    def sanitized_env(self) -> dict[str, str]:
        """The variables without those that change what an interpreter runs."""
        return sanitize_env_vars(self.env_vars)

    @classmethod
    def from_sandbox_config(cls, cfg: Any, *, include_system_paths: bool = True) -> NonoConfig:
        """The same as a `SandboxConfig`, in the words of nono."""
        made = cls(
            allow_outbound=cfg.network_enabled,
            allow_unrestricted_egress=cfg.network_enabled,
            timeout_seconds=cfg.timeout_seconds,
            env_vars=dict(cfg.env_vars),
            include_system_paths=include_system_paths,
        )
        add_mounts(made, cfg.input_dir, cfg.output_dir)
        return made


def nono_config_from_policy(policy: Any, base: Optional[NonoConfig] = None) -> NonoConfig:
    """A config with what a policy says about time, mounts and the network."""
    said = written(policy)[0]
    made = copy.deepcopy(base) if base is not None else NonoConfig()
    timeout = said.get("defaults", {}).get("timeout_seconds")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise TypeError("defaults.timeout_seconds must be a number")
        if timeout <= 0:
            raise ValueError("defaults.timeout_seconds must be positive")
        made.timeout_seconds = timeout
    apply_policy(made, said)
    return made


def policy_yaml_to_nono_config(yaml_path: str, *, base: Optional[NonoConfig] = None) -> NonoConfig:
    """The config of a policy file."""
    return nono_config_from_policy(Path(yaml_path), base)

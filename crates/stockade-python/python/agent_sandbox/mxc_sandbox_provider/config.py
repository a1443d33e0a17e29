"""The config of a session in the words of MXC, and as the JSON that its binary reads."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .._egress import add_mounts, apply_policy, check_egress
from .._hardening import sanitize_env_vars
from .._policies import written
from ..sandbox_provider import SandboxConfig

DEFAULT_SCHEMA_VERSION = "0.6.0-alpha"

_STABLE = frozenset(["bubblewrap", "lxc", "processcontainer"])
_EXPERIMENTAL = frozenset(
    ["hyperlight", "isolation_session", "microvm", "seatbelt", "windows_sandbox", "wslc"]
)


def backend_requires_experimental(backend: Optional[str]) -> bool:
    """Whether MXC starts a backend only in its experimental mode."""
    return backend in _EXPERIMENTAL


@dataclass
class MxcConfig:
    """What a session may read, write and reach."""

    version: str = DEFAULT_SCHEMA_VERSION
    backend: Optional[str] = None
    readonly_paths: list[str] = field(default_factory=list)
    readwrite_paths: list[str] = field(default_factory=list)
    allow_outbound: bool = False
    allowed_hosts: list[str] = field(default_factory=list)
    allow_unrestricted_egress: bool = False
    timeout_ms: int = 60_000
    experimental: bool = False
    env_vars: dict[str, str] = field(default_factory=dict)
    extra_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.version, str) or not self.version:
            raise ValueError("version must be a non-empty string")
        if self.backend is not None and self.backend not in _STABLE | _EXPERIMENTAL:
            known = ", ".join(sorted(_STABLE | _EXPERIMENTAL))
            raise ValueError(f"Unknown MXC backend '{self.backend}'; known are {known}")
        if self.timeout_ms <= 0:
            raise ValueError("timeout_ms must be positive")
        self.experimental = self.needs_experimental
        check_egress(self)

    @property
    def needs_experimental(self) -> bool:
        """Whether MXC needs its experimental mode for this config."""
        return self.experimental or backend_requires_experimental(self.backend)

    @classmethod
    def from_sandbox_config(
        cls, cfg: SandboxConfig, *, backend: Optional[str] = None, experimental: bool = False
    ) -> MxcConfig:
        """The same as a `SandboxConfig`, in the words of MXC."""
        made = cls(
            backend=backend,
            allow_outbound=cfg.network_enabled,
            allow_unrestricted_egress=cfg.network_enabled,
            timeout_ms=max(1, int(cfg.timeout_seconds * 1000)),
            experimental=experimental,
            env_vars=dict(cfg.env_vars),
        )
        add_mounts(made, cfg.input_dir, cfg.output_dir)
        return made

    def to_mxc_json(self, command_line: str) -> dict[str, Any]:
        """The document that the binary of MXC reads. `extra_config` cannot change what this config
        says about files, the network and time."""
        check_egress(self)
        network: dict[str, Any] = {"allowOutbound": self.allow_outbound}
        if self.allow_outbound and self.allowed_hosts:
            network["allowedHosts"] = list(self.allowed_hosts)
        process: dict[str, Any] = {"commandLine": command_line}
        environment = sanitize_env_vars(self.env_vars)
        if environment:
            process["environment"] = environment
        files = {"readonlyPaths": list(self.readonly_paths)}
        files["readwritePaths"] = list(self.readwrite_paths)
        plain: dict[str, Any] = {"version": self.version, "process": process}
        if self.backend is not None:
            plain["backend"] = self.backend
        fixed = {"filesystem": files, "network": network, "timeoutMs": int(self.timeout_ms)}
        merged = _merged(_merged(plain, self.extra_config), fixed)
        if "allowedHosts" not in network:
            merged["network"].pop("allowedHosts", None)
        return merged


def mxc_config_from_policy(policy: Any, base: Optional[MxcConfig] = None) -> MxcConfig:
    """A config with what a policy says about time, mounts and the network."""
    said = written(policy)[0]
    made = copy.deepcopy(base) if base is not None else MxcConfig()
    timeout = said.get("defaults", {}).get("timeout_seconds")
    if timeout is not None:
        made.timeout_ms = int(timeout * 1000)
    apply_policy(made, said)
    return made


def policy_to_mxc_json(
    policy: Any, command_line: str, *, base: Optional[MxcConfig] = None
) -> dict[str, Any]:
    """The document of a policy and a command."""
    return mxc_config_from_policy(policy, base).to_mxc_json(command_line)


def policy_yaml_to_mxc_json(
    yaml_path: str, command_line: str, *, base: Optional[MxcConfig] = None
) -> dict[str, Any]:
    """The document of a policy file and a command."""
    return policy_to_mxc_json(Path(yaml_path), command_line, base=base)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Two documents as one; the second wins."""
    made = copy.deepcopy(under)
    for key, value in over.items():
        below = made.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            made[key] = _merged(below, value)
        else:
            made[key] = copy.deepcopy(value)
    return made

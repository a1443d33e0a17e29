"""What the configs of Nono and MXC share about the network and mounts."""

from __future__ import annotations

from typing import Any, Protocol

from ._hardening import validate_mount_path


class Reachable(Protocol):
    """A config with hosts and paths."""

    allow_outbound: bool
    allowed_hosts: list[str]
    allow_unrestricted_egress: bool
    readonly_paths: list[str]
    readwrite_paths: list[str]


def check_egress(config: Reachable) -> None:
    """Refuses a network without named hosts, unless the caller opened all of it on purpose."""
    if config.allow_outbound and not config.allowed_hosts and not config.allow_unrestricted_egress:
        raise ValueError(
            "allow_outbound=True names no host: set allowed_hosts, or "
            "allow_unrestricted_egress=True for every public host"
        )


def add_mounts(config: Reachable, input_dir: Any, output_dir: Any) -> None:
    """Adds the directories of a policy or a config."""
    wanted = [("input_dir", input_dir, config.readonly_paths)]
    wanted.append(("output_dir", output_dir, config.readwrite_paths))
    for label, path, paths in wanted:
        if path and str(path) not in paths:
            validate_mount_path(str(path), label)
            paths.append(str(path))


def apply_policy(config: Reachable, said: dict[str, Any]) -> None:
    """Adds the mounts and hosts of a policy."""
    mounts = said.get("sandbox_mounts", {})
    add_mounts(config, mounts.get("input_dir"), mounts.get("output_dir"))
    hosts = said.get("network_allowlist", [])
    if not isinstance(hosts, list):
        raise TypeError("network_allowlist must be a list")
    if any(not isinstance(host, str) or not host.strip() for host in hosts):
        raise ValueError("network_allowlist must contain non-empty strings")
    if hosts:
        config.allow_outbound = True
        config.allowed_hosts += [host for host in hosts if host not in config.allowed_hosts]
    elif said.get("defaults", {}).get("network_default") == "allow":
        config.allow_outbound = config.allow_unrestricted_egress = True
    check_egress(config)

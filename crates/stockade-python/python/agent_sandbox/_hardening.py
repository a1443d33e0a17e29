"""Variables and host paths that no sandbox gets."""

from __future__ import annotations

import logging
import os

import stockade

_log = logging.getLogger("agent_sandbox")

BLOCKED_ENV_VARS = frozenset(
    [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "LD_DEBUG",
        "LD_PROFILE",
        "LD_SHOW_AUXV",
        "LD_DYNAMIC_WEAK",
        "BASH_ENV",
        "ENV",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "PYTHONHOME",
        "NODE_OPTIONS",
        "RUBYOPT",
        "PERL5LIB",
        "PERL5OPT",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
    ]
)
"""Variables that change what a loader or an interpreter runs, in any case."""

PROTECTED_PATHS_UNIX = frozenset(
    ["/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run"]
    + ["/sbin", "/sys", "/usr", "/var", "/var/lib", "/var/lib/containerd", "/var/lib/containers"]
    + ["/var/lib/docker", "/var/lib/kubelet", "/var/run"]
)
"""Directories that are never mounted. `is_protected_path` refuses more: what is below most of them,
homes, and directories with keys."""


def is_protected_path(path: str) -> bool:
    """Whether a path, after following its links, must not be mounted."""
    return bool(_refusal(path, "read"))


def validate_mount_path(path: str, label: str) -> None:
    """Raises ValueError if a path must not be mounted."""
    why = _refusal(path, "read" if label == "input_dir" else "write")
    if why:
        raise ValueError(f"Cannot mount protected system directory '{path}' as {label}: {why}")


def sanitize_env_vars(env_vars: dict[str, str]) -> dict[str, str]:
    """The variables without those of `BLOCKED_ENV_VARS`, which are logged."""
    blocked = sorted(name for name in env_vars if name.upper() in BLOCKED_ENV_VARS)
    if blocked:
        _log.warning("these environment variables are not passed in: %s", ", ".join(blocked))
    return {name: value for name, value in env_vars.items() if name not in blocked}


def _refusal(path: str, access: str) -> str:
    """Why the policy language refuses to mount a path; empty if it does not."""
    real = os.path.realpath(path)
    if real in PROTECTED_PATHS_UNIX:
        return "it belongs to the system"
    try:
        stockade.Policy.build(filesystem={access: [{"host": real, "guest": "/mounted"}]})
    except stockade.PolicyError as error:
        return error.message
    return ""

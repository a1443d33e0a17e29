"""The config of a session in the words of Hyperlight."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Optional

from .._policies import written
from ..sandbox_provider import SandboxConfig

BACKENDS = ("hyperlightjs", "nanvix", "wasm")

# The hypervisors of other systems, which some take for a backend.
OTHERS = ("mshv", "whp", "WHP")

_MIB = 1024 * 1024


@dataclass
class HyperlightConfig:
    """The size and the files of a micro virtual machine."""

    backend: str = "wasm"
    module: Optional[str] = "python_guest"
    heap_size_bytes: int = 64 * _MIB
    stack_size_bytes: int = 2 * _MIB
    max_execution_time_ms: int = 60_000
    input_dir: Optional[str] = None
    output_dir: Optional[str] = None
    env_vars: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            known = ", ".join(BACKENDS)
            why = "it is a hypervisor, and Stockade uses KVM; " if self.backend in OTHERS else ""
            message = f"Unknown Hyperlight backend '{self.backend}'"
            raise ValueError(f"{message}; {why}known are {known}")
        for name in ("heap_size_bytes", "stack_size_bytes", "max_execution_time_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")

    @classmethod
    def from_sandbox_config(
        cls, cfg: SandboxConfig, *, backend: str = "wasm", module: Optional[str] = "python_guest"
    ) -> HyperlightConfig:
        """The same as a `SandboxConfig`, in the words of Hyperlight."""
        return cls(
            backend=backend,
            module=module,
            heap_size_bytes=int(cfg.memory_mb) * _MIB,
            max_execution_time_ms=int(cfg.timeout_seconds * 1000),
            input_dir=cfg.input_dir,
            output_dir=cfg.output_dir,
            env_vars=dict(cfg.env_vars),
        )


def hyperlight_config_from_policy(
    policy: Any, base: Optional[HyperlightConfig] = None
) -> HyperlightConfig:
    """A config with what a policy says about memory, time and mounts."""
    said = written(policy)[0]
    made = copy.deepcopy(base) if base is not None else HyperlightConfig()
    limits, mounts = said.get("defaults", {}), said.get("sandbox_mounts", {})
    if limits.get("max_memory_mb"):
        made.heap_size_bytes = int(limits["max_memory_mb"]) * _MIB
    if limits.get("timeout_seconds"):
        made.max_execution_time_ms = int(limits["timeout_seconds"] * 1000)
    made.input_dir = mounts.get("input_dir", made.input_dir)
    made.output_dir = mounts.get("output_dir", made.output_dir)
    made.__post_init__()
    return made

"""Sessions of the native wall, under the names of the provider for MXC."""

from __future__ import annotations

import logging
from typing import Any, Callable, ClassVar, Optional

import stockade

from .._light import NativeProvider
from .._output import Output
from ..sandbox_provider import SandboxConfig
from .config import MxcConfig

_log = logging.getLogger("agent_sandbox")

# The backends of MXC whose place the native wall takes.
_SERVED = (None, "bubblewrap", "lxc")


class MxcSandboxProvider(NativeProvider):
    """Sessions without containers. The native wall takes the place of MXC's binary; a backend that
    is another kind of wall is unavailable."""

    _title: ClassVar[str] = "MXC unavailable"
    _context_variable: ClassVar[Optional[str]] = "MXC_CONTEXT"

    def __init__(
        self,
        binary_path: Optional[str] = None,
        *,
        backend: Optional[str] = None,
        experimental: bool = False,
        interpreter: str = "python",
        debug: bool = False,
        tools: Optional[dict[str, Callable[..., Any]]] = None,
    ) -> None:
        """`binary_path` is kept and not needed; `debug` logs the wall of each session; `tools` are
        functions that code inside can call."""
        super().__init__(interpreter, tools)
        self._config = MxcConfig(backend=backend, experimental=experimental)
        self._binary_path, self._debug = binary_path, debug

    @property
    def binary_path(self) -> Optional[str]:
        """The path that the caller named."""
        return self._binary_path

    @property
    def backend(self) -> Optional[str]:
        """The backend that the caller named."""
        return self._config.backend

    @property
    def unavailable_reason(self) -> Optional[str]:
        """Why sessions cannot be made here; None if they can."""
        if self.backend not in _SERVED:
            return (
                f"the backend {self.backend!r} is another wall than the native one, and Stockade "
                "does not replace it; leave backend unset, or use another provider"
            )
        return super().unavailable_reason

    def _open(
        self, policy: stockade.Policy, config: SandboxConfig, context: dict[str, Any]
    ) -> tuple[stockade.Sandbox, Output]:
        if self.backend not in _SERVED:
            raise RuntimeError(f"{self._title}: {self.unavailable_reason}")
        sandbox, output = super()._open(policy, config, context)
        if self._debug:
            _log.info("session of %s: %s", context["agent_id"], sandbox.wall)
        return sandbox, output

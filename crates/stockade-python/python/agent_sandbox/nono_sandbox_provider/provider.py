"""Sessions of the native wall, under the names of the provider for nono."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Optional

from .._light import NativeProvider
from ..sandbox_provider import SandboxConfig


class NonoSandboxProvider(NativeProvider):
    """Sessions without containers, in a wall of the kernel's own means."""

    _title: ClassVar[str] = "nono unavailable"
    _context_variable: ClassVar[Optional[str]] = "NONO_CONTEXT"

    def __init__(
        self,
        *,
        interpreter: str = "python",
        include_system_paths: bool = True,
        tools: Optional[dict[str, Callable[..., Any]]] = None,
    ) -> None:
        """`tools` are functions that code inside can call, which nono itself does not have."""
        super().__init__(interpreter, tools)
        self._include_system_paths = include_system_paths

    def _options(self, config: SandboxConfig) -> dict[str, Any]:
        if not self._include_system_paths:
            raise ValueError(
                "include_system_paths=False: the native wall runs the programs of the host's /usr; "
                "leave it True"
            )
        return super()._options(config)

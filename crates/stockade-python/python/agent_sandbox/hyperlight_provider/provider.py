"""Sessions in micro virtual machines, where Stockade has the wall ``hyperlight``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, ClassVar, Optional, Union

from .._walls import WallProvider
from ..sandbox_provider import ExecutionHandle
from .config import HyperlightConfig

# Longer code does not fit into a guest.
_MOST_CODE_BYTES = 10 * 1024 * 1024


class HyperlightBackend(str, Enum):
    """What runs inside a micro virtual machine."""

    WASM = "wasm"
    HYPERLIGHTJS = "hyperlightjs"
    NANVIX = "nanvix"


@dataclass
class SnapshotHandle:
    """A kept state of a session."""

    snapshot_id: str
    agent_id: str
    session_id: str


class HyperLightSandboxProvider(WallProvider):
    """Sessions in micro virtual machines. `is_available` tells whether this version and this host
    have them; no other wall takes their place."""

    _wall: ClassVar[str] = "hyperlight"
    _title: ClassVar[str] = "hyperlight-sandbox unavailable"

    def __init__(
        self,
        backend: Union[str, HyperlightBackend] = "wasm",
        module: Optional[str] = "python_guest",
        tools: Optional[dict[str, Callable[..., Any]]] = None,
        *,
        sandbox_module: str = "hyperlight_sandbox",
    ) -> None:
        """`sandbox_module`, the package of another runtime, is kept and not needed."""
        super().__init__(tools)
        name = backend.value if isinstance(backend, HyperlightBackend) else backend
        self._config = HyperlightConfig(backend=name, module=module)
        self._sandbox_module = sandbox_module

    @property
    def backend(self) -> str:
        """The backend that the caller named."""
        return self._config.backend

    @property
    def module(self) -> Optional[str]:
        """The guest module that the caller named."""
        return self._config.module

    def execute_code(
        self,
        agent_id: str,
        session_id: str,
        code: str,
        *,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """Judges Python code by the policy of the session, then runs it."""
        _check_size(code)
        return super().execute_code(agent_id, session_id, code, context=context)

    async def execute_code_async(
        self,
        agent_id: str,
        session_id: str,
        code: str,
        *,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """The same as `execute_code`, for asyncio. Cancelling the task ends the code."""
        _check_size(code)
        return await super().execute_code_async(agent_id, session_id, code, context=context)

    def snapshot_session(self, agent_id: str, session_id: str) -> SnapshotHandle:
        """Keeps the state of a session; refused until Stockade has checkpoints."""
        self._registry.find(agent_id, session_id)
        raise NotImplementedError("snapshot_session: this version of Stockade has no checkpoints")

    def restore_snapshot(self, agent_id: str, session_id: str, snapshot_id: str) -> None:
        """Restores a session to a kept state; KeyError for an unknown one, as every one is until
        Stockade has checkpoints."""
        self._registry.find(agent_id, session_id)
        raise KeyError(f"No snapshot '{snapshot_id}' of session '{session_id}'")


def _check_size(code: str) -> None:
    size = len(code.encode())
    if size > _MOST_CODE_BYTES:
        raise ValueError(f"the code has {size} bytes; at most {_MOST_CODE_BYTES} fit into a guest")

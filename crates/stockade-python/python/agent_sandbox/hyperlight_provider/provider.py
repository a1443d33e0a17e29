"""Sessions in micro virtual machines, where Stockade has the wall ``hyperlight``."""

from __future__ import annotations

import functools
import logging
import os
import threading
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Callable, ClassVar, Optional, Union

import stockade
from stockade import Sandbox, WallReport

from .._output import Output
from .._sessions import new_id
from .._walls import WallProvider
from ..docker_provider.state import _translated
from ..sandbox_provider import SandboxConfig
from .config import HyperlightConfig

_log = logging.getLogger("agent_sandbox")

# Lets another wall stand in for this one, by its name and for development only.
WALL_VARIABLE = "STOCKADE_HYPERLIGHT_WALL"

_STAND_INS = {"": "hyperlight", "hyperlight": "hyperlight", "wasm": "wasm"}

# The guest module that Stockade has: CPython as a component.
_MODULE = "python_guest"


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
    """Sessions in micro virtual machines. `is_available` starts one to tell whether this host can.

    No other wall takes their place, unless the environment names it: with
    ``STOCKADE_HYPERLIGHT_WALL=wasm`` the same component runs without a virtual machine, and `wall`
    and every report say ``wasm``.
    """

    _wall: ClassVar[str] = "hyperlight"
    _title: ClassVar[str] = "hyperlight-sandbox unavailable"

    def __init__(
        self,
        backend: Union[str, HyperlightBackend] = "wasm",
        module: Optional[str] = _MODULE,
        tools: Optional[dict[str, Callable[..., Any]]] = None,
        *,
        sandbox_module: str = "hyperlight_sandbox",
    ) -> None:
        """`sandbox_module`, the package of another runtime, is kept and not needed."""
        super().__init__(tools)
        name = backend.value if isinstance(backend, HyperlightBackend) else backend
        self._config = HyperlightConfig(backend=name, module=module)
        self._sandbox_module = sandbox_module
        self._lock = threading.Lock()
        self._snapshots: set[tuple[str, str, str]] = set()
        asked = os.environ.get(WALL_VARIABLE, "")
        if asked not in _STAND_INS:
            raise ValueError(f"{WALL_VARIABLE}={asked}: only wasm can stand in for hyperlight")
        self._used = _STAND_INS[asked]
        if self._used != self._wall:
            _log.warning("%s=%s: code runs without a virtual machine", WALL_VARIABLE, asked)

    @property
    def wall(self) -> str:
        """The wall of Stockade that runs code, as its reports name it."""
        return self._used

    @property
    def backend(self) -> str:
        """The backend that the caller named."""
        return self._config.backend

    @property
    def module(self) -> Optional[str]:
        """The guest module that the caller named."""
        return self._config.module

    def snapshot_session(self, agent_id: str, session_id: str) -> SnapshotHandle:
        """Keeps the state of a session: its files. No other state passes between executions, since
        every one begins with the interpreter's own snapshot."""
        session = self._registry.find(agent_id, session_id)
        snapshot_id = new_id(12)
        _translated(lambda: session.sandbox._keep(_reference(session_id, snapshot_id)))
        with self._lock:
            self._snapshots.add((agent_id, session_id, snapshot_id))
        return SnapshotHandle(snapshot_id, agent_id, session_id)

    def restore_snapshot(self, agent_id: str, session_id: str, snapshot_id: str) -> None:
        """Brings a session back to a kept state of its own; KeyError for an unknown one."""
        session = self._registry.find(agent_id, session_id)
        with self._lock:
            is_known = (agent_id, session_id, snapshot_id) in self._snapshots
        if not is_known:
            raise KeyError(f"No snapshot '{snapshot_id}' of session '{session_id}'")
        reference = _reference(session_id, snapshot_id)
        _translated(lambda: session.sandbox.restore(reference))

    def destroy_session(self, agent_id: str, session_id: str) -> None:
        """Ends a session with its snapshots; an unknown one is ignored."""
        super().destroy_session(agent_id, session_id)
        with self._lock:
            own = {it for it in self._snapshots if it[:2] == (agent_id, session_id)}
            self._snapshots -= own
        for _, _, snapshot_id in own:
            reference = _reference(session_id, snapshot_id)
            _translated(functools.partial(stockade.remove_checkpoint, reference))

    def _used_wall(self) -> str:
        return self._used

    def _report(self) -> WallReport:
        report = stockade.wall_report(self._used)
        refusal = self._refusal()
        if refusal is None:
            return report
        reason, remedy = refusal
        return replace(report, usable=False, reason=reason, remedy=remedy)

    def _refusal(self) -> Optional[tuple[str, str]]:
        """Why this version has no such backend or module, and what to do."""
        if self.backend != HyperlightBackend.WASM.value:
            reason = f"Stockade has no Hyperlight backend '{self.backend}'"
            return f"{reason}: it runs components, which is the backend 'wasm'", "use backend='wasm'"
        if self.module not in (None, _MODULE):
            reason = f"Stockade has no guest module '{self.module}': it has CPython"
            return reason, f"use module='{_MODULE}'"
        return None

    def _open(
        self, policy: stockade.Policy, config: SandboxConfig, context: dict[str, Any]
    ) -> tuple[Sandbox, Output]:
        refusal = self._refusal()
        if refusal is not None:
            raise RuntimeError(f"{self._title}: {'; '.join(refusal)}")
        return super()._open(policy, config, context)


def _reference(session_id: str, snapshot_id: str) -> str:
    """The name of a snapshot in the store of Stockade."""
    return f"hyperlight-{session_id}/{snapshot_id}"

"""What every provider offers: sessions, executions, and the values that describe them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional


class SessionStatus(str, Enum):
    """The state of a session."""

    PROVISIONING = "provisioning"
    READY = "ready"
    EXECUTING = "executing"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"
    FAILED = "failed"


class ExecutionStatus(str, Enum):
    """The state of an execution."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass
class SandboxConfig:
    """The limits and permissions of a session. What a policy says wins over them."""

    timeout_seconds: float = 60.0
    """The time of one execution."""
    memory_mb: int = 512
    """The memory of the session, its files included."""
    cpu_limit: float = 1.0
    """The processors of the session."""
    network_enabled: bool = False
    """Whether every public host is reachable, unless `network_allowlist` names some."""
    read_only_fs: bool = True
    """The files of the system are always read-only; ``/workspace`` and ``/tmp`` are writable."""
    env_vars: dict[str, str] = field(default_factory=dict)
    """Environment variables of every program."""
    input_dir: Optional[str] = None
    """A directory of the host at ``/input``, read-only."""
    output_dir: Optional[str] = None
    """A directory of the host at ``/output``, writable."""
    runtime: Optional[str] = None
    """The runtime of this session's container, instead of the provider's."""
    output_max_bytes: int = 1_048_576
    """The output that is kept of one execution."""
    ring: Any = None
    """An execution ring of the toolkit's hypervisor, whose constraints narrow the session."""
    network_allowlist: list[str] = field(default_factory=list)
    """The only hosts that are reachable."""
    tool_allowlist: list[str] = field(default_factory=list)
    """The only tools of the provider that can be called; empty is all of them."""
    network_default: str = "deny"
    """``allow`` makes every public host reachable, together with `network_enabled`."""

    def __post_init__(self) -> None:
        if self.network_default not in ("allow", "deny"):
            raise ValueError("network_default must be 'allow' or 'deny'")
        for name in ("network_allowlist", "tool_allowlist"):
            entries = getattr(self, name)
            is_plain = isinstance(entries, list) and all(
                isinstance(entry, str) and entry for entry in entries
            )
            if not is_plain:
                raise ValueError(f"{name} must contain non-empty strings")


@dataclass
class SandboxResult:
    """The end of one execution."""

    success: bool
    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    duration_seconds: float = 0.0
    killed: bool = False
    kill_reason: str = ""


@dataclass
class SessionHandle:
    """A session, as `SandboxProvider.create_session` returns it."""

    agent_id: str
    session_id: str
    status: SessionStatus = SessionStatus.READY


@dataclass
class ExecutionHandle:
    """An execution, as `SandboxProvider.execute_code` returns it."""

    execution_id: str
    agent_id: str
    session_id: str
    status: ExecutionStatus = ExecutionStatus.COMPLETED
    result: Optional[SandboxResult] = None


class SandboxProvider(ABC):
    """Makes sessions and runs code in them. Subclass it for a wall of your own."""

    @abstractmethod
    def create_session(
        self,
        agent_id: str,
        policy: Optional[Any] = None,
        config: Optional[SandboxConfig] = None,
    ) -> SessionHandle:
        """Makes a session under a policy."""

    @abstractmethod
    def execute_code(
        self,
        agent_id: str,
        session_id: str,
        code: str,
        *,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """Judges Python code by the policy of the session, then runs it."""

    @abstractmethod
    def destroy_session(self, agent_id: str, session_id: str) -> None:
        """Ends a session and everything in it."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether sessions can be made on this host."""

    def run(
        self, agent_id: str, command: list[str], config: Optional[SandboxConfig] = None
    ) -> SandboxResult:
        """Runs a command."""
        raise NotImplementedError(f"{type(self).__name__} does not run commands")

    def get_session_status(self, agent_id: str, session_id: str) -> SessionStatus:
        """The state of a session; DESTROYED for an unknown one, as here every one is."""
        return SessionStatus.DESTROYED

    def get_execution_status(
        self, agent_id: str, session_id: str, execution_id: str
    ) -> ExecutionHandle:
        """The state of an execution. Here every execution has ended when its call returns."""
        return ExecutionHandle(execution_id, agent_id, session_id)

    def cancel_execution(self, agent_id: str, session_id: str, execution_id: str) -> bool:
        """Ends a running execution. This base class runs nothing, so it returns False."""
        return False

    async def create_session_async(
        self,
        agent_id: str,
        policy: Optional[Any] = None,
        config: Optional[SandboxConfig] = None,
    ) -> SessionHandle:
        """The same as `create_session`, for asyncio."""
        return await asyncio.to_thread(self.create_session, agent_id, policy, config)

    async def execute_code_async(
        self,
        agent_id: str,
        session_id: str,
        code: str,
        *,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """The same as `execute_code`, for asyncio."""
        return await asyncio.to_thread(
            self.execute_code, agent_id, session_id, code, context=context
        )

    async def destroy_session_async(self, agent_id: str, session_id: str) -> None:
        """The same as `destroy_session`, for asyncio."""
        await asyncio.to_thread(self.destroy_session, agent_id, session_id)

    async def cancel_execution_async(
        self, agent_id: str, session_id: str, execution_id: str
    ) -> bool:
        """The same as `cancel_execution`, for asyncio."""
        return await asyncio.to_thread(
            self.cancel_execution, agent_id, session_id, execution_id
        )

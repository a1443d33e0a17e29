"""Sessions behind a wall of Stockade.

    create_session ──▶ READY ◀── executions ──▶ EXECUTING
                         │ destroy_session            │ the sandbox is gone
                         ▼                            ▼
                     DESTROYING ──▶ DESTROYED       FAILED
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, Optional

import stockade
from stockade import Policy, Sandbox
from stockade._stockade import Execution as Running

from ._judges import Judge
from ._output import Output
from ._results import result_of, status_of
from .sandbox_provider import (
    ExecutionHandle,
    ExecutionStatus,
    SandboxConfig,
    SandboxResult,
    SessionStatus,
)

# How many executions are remembered after their end.
_REMEMBERED = 1024


def new_id(digits: int = 8) -> str:
    """A new id in hexadecimal digits."""
    return uuid.uuid4().hex[:digits]


@dataclass
class Session:
    """An open session."""

    agent_id: str
    session_id: str
    sandbox: Sandbox
    policy: Policy
    config: SandboxConfig
    judges: list[Judge]
    output: Output
    """What happens to the files of ``/output``."""
    running: set[str] = field(default_factory=set)
    status: SessionStatus = SessionStatus.READY

    def __post_init__(self) -> None:
        limits = self.policy.to_dict()["defaults"]
        self.timeout: float = limits["timeout_seconds"]
        self.memory_mb: float = limits["max_memory_mb"]


@dataclass
class Execution:
    """An execution while it runs."""

    handle: ExecutionHandle
    session: Session
    running: Running
    timeout: float


class Registry:
    """The sessions of a provider, and its executions. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: dict[tuple[str, str], Session] = {}
        self._executions: OrderedDict[tuple[str, str, str], Execution] = OrderedDict()

    def add(self, session: Session) -> None:
        """Adds a session."""
        with self._lock:
            self._sessions[session.agent_id, session.session_id] = session

    def find(self, agent_id: str, session_id: str) -> Session:
        """A session; RuntimeError for an unknown one."""
        with self._lock:
            session = self._sessions.get((agent_id, session_id))
        if session is None:
            raise RuntimeError(
                f"No active session for agent '{agent_id}' with session_id '{session_id}'. "
                "Call create_session() first."
            )
        return session

    def latest(self, agent_id: str, session_id: Optional[str]) -> Optional[Session]:
        """A session by its id, or the first of an agent."""
        with self._lock:
            if session_id is not None:
                return self._sessions.get((agent_id, session_id))
            of_agent = (it for key, it in self._sessions.items() if key[0] == agent_id)
            return next(of_agent, None)

    def all(self) -> list[Session]:
        """Every session."""
        with self._lock:
            return list(self._sessions.values())

    def status(self, agent_id: str, session_id: str) -> SessionStatus:
        """The state of a session."""
        with self._lock:
            session = self._sessions.get((agent_id, session_id))
            if session is None:
                return SessionStatus.DESTROYED
            if session.status is SessionStatus.READY and session.running:
                return SessionStatus.EXECUTING
            return session.status

    def close(self, agent_id: str, session_id: str) -> None:
        """Ends a session, if there is one."""
        with self._lock:
            session = self._sessions.get((agent_id, session_id))
            if session is None:
                return
            session.status = SessionStatus.DESTROYING
        # On failure the session stays, so that the caller can try again.
        session.sandbox.close()
        session.output.remove()
        with self._lock:
            self._sessions.pop((agent_id, session_id), None)

    def begin(self, session: Session, running: Running, timeout: float) -> Execution:
        """Registers an execution that has started."""
        handle = ExecutionHandle(
            new_id(), session.agent_id, session.session_id, ExecutionStatus.RUNNING
        )
        execution = Execution(handle, session, running, timeout)
        with self._lock:
            session.running.add(handle.execution_id)
            key = (session.agent_id, session.session_id, handle.execution_id)
            self._executions[key] = execution
            while len(self._executions) > _REMEMBERED:
                oldest = next(iter(self._executions.values()))
                if oldest.handle.status is ExecutionStatus.RUNNING:
                    break
                self._executions.popitem(last=False)
        return execution

    def finish(self, execution: Execution, ended: stockade.Execution) -> SandboxResult:
        """Completes the handle of an execution that has ended."""
        result = result_of(ended, execution.timeout, execution.session.memory_mb)
        self._complete(execution, status_of(ended), result)
        if ended.outcome == "engine_lost":
            self._fail(execution.session)
        return result

    def lose(self, execution: Execution, why: str) -> SandboxResult:
        """Completes the handle of an execution whose sandbox is gone."""
        result = SandboxResult(False, -1, stderr=why, killed=True, kill_reason="The sandbox ended")
        self._complete(execution, ExecutionStatus.FAILED, result)
        self._fail(execution.session)
        return result

    def refuse(self, execution: Execution, why: str) -> SandboxResult:
        """Completes the handle of an execution that failed, and whose session continues."""
        result = SandboxResult(False, -1, stderr=why)
        self._complete(execution, ExecutionStatus.FAILED, result)
        return result

    def abandon(self, execution: Execution) -> SandboxResult:
        """Completes the handle of an execution that was cancelled before it had a report."""
        reason = "Execution was cancelled"
        result = SandboxResult(False, -1, killed=True, kill_reason=reason)
        self._complete(execution, ExecutionStatus.CANCELLED, result)
        return result

    def _complete(
        self, execution: Execution, status: ExecutionStatus, result: SandboxResult
    ) -> None:
        with self._lock:
            execution.session.running.discard(execution.handle.execution_id)
            execution.handle.status, execution.handle.result = status, result

    def _fail(self, session: Session) -> None:
        with self._lock:
            if session.status is SessionStatus.READY:
                session.status = SessionStatus.FAILED

    def handle(self, agent_id: str, session_id: str, execution_id: str) -> ExecutionHandle:
        """An execution as it is now; KeyError for an unknown one."""
        with self._lock:
            execution = self._executions.get((agent_id, session_id, execution_id))
            if execution is None:
                raise KeyError(f"No execution '{execution_id}' in session '{session_id}'")
            return replace(execution.handle)

    def handles(self, agent_id: str, session_id: str) -> list[ExecutionHandle]:
        """The executions of a session, oldest first."""
        with self._lock:
            known = self._executions.items()
            return [replace(it.handle) for key, it in known if key[:2] == (agent_id, session_id)]

    def cancel(self, agent_id: str, session_id: str, execution_id: str) -> bool:
        """Ends an execution; false if it does not run."""
        with self._lock:
            execution = self._executions.get((agent_id, session_id, execution_id))
            if execution is None or execution.handle.status is not ExecutionStatus.RUNNING:
                return False
        execution.running.operation.cancel()
        return True


def fields_of(context: Optional[dict[str, Any]], session: Session) -> dict[str, Any]:
    """The fields of a context for rules, with the agent and the session."""
    own = {"agent_id": session.agent_id, "session_id": session.session_id}
    return {**(context or {}), **own}

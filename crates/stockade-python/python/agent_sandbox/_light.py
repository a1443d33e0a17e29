"""What the two providers without containers share: the native wall, and runs without a session."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from typing import Any, Callable, ClassVar, Optional

from ._walls import WallProvider, check_agent_id
from .sandbox_provider import ExecutionHandle, SandboxConfig, SandboxResult

_PYTHON = re.compile(r"(?:py|python|pypy)\d*(?:\.\d+)?", re.IGNORECASE)


class NativeProvider(WallProvider):
    """Sessions behind the native wall: namespaces, Landlock, seccomp and control groups."""

    _wall: ClassVar[str] = "native"

    def __init__(
        self, interpreter: str, tools: Optional[dict[str, Callable[..., Any]]] = None
    ) -> None:
        super().__init__(tools)
        self._interpreter = interpreter

    def execute_code(
        self,
        agent_id: str,
        session_id: str,
        code: str,
        *,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """Judges Python code by the policy of the session, then runs it."""
        self._check_interpreter()
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
        self._check_interpreter()
        return await super().execute_code_async(agent_id, session_id, code, context=context)

    def run_once(
        self,
        agent_id: str,
        code: str,
        *,
        policy: Optional[Any] = None,
        config: Optional[SandboxConfig] = None,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """Runs code in a session of its own, which then ends."""
        made = self.create_session(agent_id, policy=policy, config=config)
        try:
            return self.execute_code(agent_id, made.session_id, code, context=context)
        finally:
            self.destroy_session(agent_id, made.session_id)

    async def run_once_async(
        self,
        agent_id: str,
        code: str,
        *,
        policy: Optional[Any] = None,
        config: Optional[SandboxConfig] = None,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """The same as `run_once`, for asyncio."""
        made = await self.create_session_async(agent_id, policy=policy, config=config)
        try:
            return await self.execute_code_async(
                agent_id, made.session_id, code, context=context
            )
        finally:
            await asyncio.shield(self.destroy_session_async(agent_id, made.session_id))

    def run(
        self,
        agent_id: str,
        command: list[str],
        config: Optional[SandboxConfig] = None,
        *,
        session_id: Optional[str] = None,
    ) -> SandboxResult:
        """Runs a command in a session of an agent, or without one in a sandbox of its own."""
        if not command:
            return SandboxResult(False, -1, stderr="empty command")
        session = self._registry.latest(agent_id, session_id)
        if session is not None:
            return self._run_in(session, command, config)
        if session_id is not None:
            stderr = f"No session '{session_id}' of agent '{agent_id}'"
            return SandboxResult(False, -1, stderr=stderr)
        check_agent_id(agent_id)
        made = self.create_session(agent_id, config=config)
        try:
            return self._run_in(self._registry.find(agent_id, made.session_id), command, None)
        finally:
            self.destroy_session(agent_id, made.session_id)

    def _options(self, config: SandboxConfig) -> dict[str, Any]:
        if config.runtime:
            raise ValueError(f"runtime={config.runtime!r} is for containers; use Docker instead")
        name = self._interpreter
        if not self._is_python() or name in ("python", "python3"):
            return {}
        found = name if "/" in name else shutil.which(name)
        if found is None:
            raise ValueError(f"interpreter {name!r} is not in PATH")
        return {"python": found}

    def _is_python(self) -> bool:
        """Whether the interpreter runs Python code."""
        words = shlex.split(self._interpreter) if self._interpreter else []
        return bool(words) and bool(_PYTHON.fullmatch(os.path.basename(words[0])))

    def _check_interpreter(self) -> None:
        if not self._is_python():
            raise ValueError(
                f"execute_code runs Python code, and the interpreter is {self._interpreter!r}; "
                "use run() for other languages"
            )

"""The environments of several agents."""

from __future__ import annotations

import functools
import os
import re
import tempfile
import threading
from typing import Any, Callable, Optional

from .. import _beneath, errors
from ..sandbox import Sandbox as _Wall
from .filesystem import FilesystemSandbox, SecurityError
from .network import NetworkPolicy, NetworkSandbox
from .sandboxes import ProcessSandbox, SandboxConfig

_AGENT_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}", re.ASCII)

_Act = Callable[[], None]


class SandboxManager:
    """Gives each agent files and a sandbox of its own."""

    def __init__(self, config: Optional[SandboxConfig] = None) -> None:
        self.config = config if config is not None else SandboxConfig()
        """The limits and permissions of every agent."""
        self.network_sandbox = NetworkSandbox(
            NetworkPolicy(allow_outbound=self.config.allowed_network)
        )
        """Judges connections as the sandboxes do."""
        self.process_sandbox = ProcessSandbox(self.config)
        """Runs code of no agent."""
        self._lock = threading.Lock()
        self._own_files: Optional[FilesystemSandbox] = None
        self._directory: Optional[str] = None
        self._files: dict[str, FilesystemSandbox] = {}
        self._sandboxes: dict[str, _AgentSandbox] = {}

    @property
    def filesystem_sandbox(self) -> FilesystemSandbox:
        """Files of no agent; the first use makes their directory."""
        with self._lock:
            if self._own_files is None:
                self._own_files = FilesystemSandbox()
            return self._own_files

    def create_agent_environment(self, agent_id: str) -> dict[str, Any]:
        """Makes the files of an agent, or finds them: ``agent_id``, ``filesystem`` and
        ``working_directory``, which is ``/workspace`` for its code."""
        files = self._environment(agent_id)[0]
        return {
            "agent_id": agent_id,
            "filesystem": files,
            "working_directory": str(files.base_path),
        }

    def execute_in_sandbox(
        self, agent_id: str, code: str, network_required: bool = False
    ) -> dict[str, Any]:
        """Runs Python code of an agent in its directory; the result is as of `Sandbox.execute`."""
        if network_required and not self.config.allowed_network:
            return {"success": False, "error": "Network access not allowed"}
        files, sandbox = self._environment(agent_id)
        if files._is_over():
            return {"success": False, "error": "Filesystem quota exceeded"}
        return sandbox.execute(code)

    def cleanup_agent(self, agent_id: str) -> None:
        """Ends the sandbox of an agent and removes its files; other agents keep theirs."""
        with self._lock:
            sandboxes = [self._sandboxes.pop(agent_id)] if agent_id in self._sandboxes else []
            files = [self._files.pop(agent_id)] if agent_id in self._files else []
        _finish([it.cleanup for it in sandboxes], [it.cleanup for it in files])

    def cleanup(self) -> None:
        """Ends everything of every agent, then removes their files."""
        with self._lock:
            sandboxes, self._sandboxes = list(self._sandboxes.values()), {}
            files, self._files = list(self._files.values()), {}
            directory, self._directory = self._directory, None
            if self._own_files is not None:
                files.append(self._own_files)
                self._own_files = None
        own = [self.network_sandbox.cleanup, self.process_sandbox.cleanup]
        ends = [*own, *(it.cleanup for it in sandboxes)]
        removals: list[_Act] = [it.cleanup for it in files]
        if directory is not None:
            removals.append(functools.partial(_beneath.remove_tree, directory))
        _finish(ends, removals)

    def _environment(self, agent_id: str) -> tuple[FilesystemSandbox, _AgentSandbox]:
        if not isinstance(agent_id, str) or not _AGENT_ID.fullmatch(agent_id):
            raise SecurityError(f"Invalid agent_id: {agent_id!r}")
        with self._lock:
            if self._directory is None:
                self._directory = tempfile.mkdtemp(prefix="stockade-agents-")
            if agent_id not in self._files:
                place = os.path.join(self._directory, f"agent_{agent_id}")
                self._files[agent_id] = FilesystemSandbox(place, self.config.max_memory_mb)
                path = str(self._files[agent_id].base_path)
                self._sandboxes[agent_id] = _AgentSandbox(self.config, path)
            return self._files[agent_id], self._sandboxes[agent_id]


class _AgentSandbox(ProcessSandbox):
    """A sandbox whose workspace is a directory of the host."""

    def __init__(self, config: SandboxConfig, workspace: str) -> None:
        super().__init__(config)
        self._workspace, self._is_closed = workspace, False

    def cleanup(self) -> None:
        """Ends the sandbox for good: its workspace is removed next."""
        with self._lock:
            self._is_closed = True
        super().cleanup()

    def _make(self) -> _Wall:
        if self._is_closed:
            message = "the environment of the agent is removed"
            raise errors.ClosedError(message, "create another one")
        return super()._make()

    def _clauses(self) -> dict[str, Any]:
        made = super()._clauses()
        made["filesystem"]["workspace"] = {"host": self._workspace, "mode": "write"}
        return made


def _finish(ends: list[_Act], removals: list[_Act]) -> None:
    """Ends sandboxes and then removes files. A failure stops none of the others."""
    failures: list[Exception] = []
    for act in [*ends, *removals]:
        try:
            act()
        except (errors.StockadeError, OSError) as error:
            failures.append(error)
    if failures:
        what = "; ".join(str(failure) for failure in failures)
        raise RuntimeError(f"cannot clean up everything: {what}") from failures[0]

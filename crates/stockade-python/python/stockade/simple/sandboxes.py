"""Sandboxes that run Python code and return a dictionary."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Optional

from .. import errors
from ..sandbox import Sandbox as _Wall
from ..walls import has_image

LONGEST_SECONDS = 2_592_000
"""The longest life of a sandbox: until `Sandbox.cleanup`, if that is earlier."""

# Places that every sandbox has for itself.
_OWN = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/workspace")


@dataclass
class SandboxConfig:
    """The limits and permissions of a sandbox."""

    max_memory_mb: int = 512
    """Its memory, its files included."""
    max_cpu_percent: float = 50.0
    """Its share of a processor; 200 is two of them."""
    max_execution_time_seconds: float = 60
    """The time of one execution."""
    allowed_network: bool = False
    """Whether public hosts are reachable, on ports 80 and 443."""
    allowed_filesystem_paths: Optional[list[str]] = None
    """Paths of the host that code can read. Every sandbox has a ``/tmp`` of its own."""
    allowed_commands: Optional[list[str]] = None
    """The only programs that code can start; None is every one inside, an empty list none."""
    environment_variables: Optional[dict[str, str]] = None
    """Environment variables of the code."""

    def clauses(self) -> dict[str, Any]:
        """The same as clauses of a policy."""
        paths = self.allowed_filesystem_paths or []
        read = [path for path in map(os.path.abspath, paths) if path not in _OWN]
        made: dict[str, Any] = {
            "name": "simple",
            "defaults": {
                "max_memory_mb": self.max_memory_mb,
                "max_cpu": self.max_cpu_percent / 100,
                "timeout_seconds": self.max_execution_time_seconds,
                "network_default": "allow" if self.allowed_network else "deny",
            },
            # Nothing runs on after `execute` was interrupted.
            "limits": {"max_lifetime_seconds": LONGEST_SECONDS, "cancel_grace_seconds": 0},
            "filesystem": {"read": read},
        }
        if self.allowed_commands is not None:
            made["command_allowlist"] = list(self.allowed_commands)
        return made


def _number(name: str) -> int:
    """The number of a signal, as the standard library reports it."""
    return int(getattr(signal, name, 0))


class Sandbox:
    """Runs Python code behind the native wall. Files stay until `cleanup`."""

    _provider: ClassVar[str] = "native"

    def __init__(self, config: Optional[SandboxConfig] = None) -> None:
        self.config = config if config is not None else SandboxConfig()
        """The limits and permissions."""
        self._lock = threading.Lock()
        self._wall: Optional[_Wall] = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.cleanup()

    def execute(self, code: str) -> dict[str, Any]:
        """Runs code. The result has ``success``, and ``stdout``, ``stderr`` and ``return_code`` if
        the code ended by itself, otherwise ``error``, and ``timeout`` if its time was over."""
        try:
            limit = self.config.max_execution_time_seconds
            ended = self._open().run_code(code, timeout=limit)
        except errors.TimedOutError:
            return {"success": False, "error": "Execution timeout exceeded", "timeout": True}
        except errors.ExecutionError as error:
            kept = error.execution
            said = {"stdout": kept.stdout, "stderr": kept.stderr}
            return {"success": False, "error": error.message, **said}
        except ValueError:
            raise
        except errors.StockadeError as error:
            return {"success": False, "error": str(error)}
        return {
            "success": ended.ok,
            "stdout": ended.stdout,
            "stderr": ended.stderr,
            "return_code": ended.exit_code if ended.signal is None else -_number(ended.signal),
        }

    def cleanup(self) -> None:
        """Ends everything inside and removes its files. The next execution starts anew."""
        with self._lock:
            wall, self._wall = self._wall, None
        if wall is not None:
            wall.close()

    def _open(self) -> _Wall:
        with self._lock:
            if self._wall is None:
                self._wall = self._make()
            return self._wall

    def _make(self) -> _Wall:
        envs = self.config.environment_variables or {}
        return _Wall(
            self._clauses(),
            provider=self._provider,
            envs=envs,
            credentials=list(envs),
            **self._options(),
        )

    def _clauses(self) -> dict[str, Any]:
        return self.config.clauses()

    def _options(self) -> dict[str, Any]:
        return {}


class ProcessSandbox(Sandbox):
    """Runs Python code in processes behind the native wall."""


class DockerSandbox(Sandbox):
    """Runs Python code in a container of a Docker engine."""

    _provider: ClassVar[str] = "docker"

    def __init__(
        self, config: Optional[SandboxConfig] = None, image: str = "python:3.11-slim"
    ) -> None:
        super().__init__(config)
        self.image = image
        """The image, which the engine must have."""

    def _make(self) -> _Wall:
        if not has_image(self.image):
            message = f"the engine has no image {self.image}"
            raise errors.UnavailableError(message, f"run `docker pull {self.image}`")
        return super()._make()

    def _options(self) -> dict[str, Any]:
        return {"image": self.image}

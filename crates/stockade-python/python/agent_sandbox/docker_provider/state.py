"""Checkpoints of sessions. This version has none, and every method says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NoReturn, Optional

if TYPE_CHECKING:
    from .provider import DockerSandboxProvider


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


@dataclass
class SandboxCheckpoint:
    """A kept state of a session."""

    agent_id: str
    name: str
    image_tag: str
    created_at: str = field(default_factory=_now)


class SandboxStateManager:
    """Keeps and restores states of the sessions of a provider."""

    def __init__(self, provider: DockerSandboxProvider) -> None:
        self._provider = provider

    def save(self, agent_id: str, session_id: str, name: str) -> SandboxCheckpoint:
        """Keeps the state of a session."""
        self._provider._registry.find(agent_id, session_id)
        refuse("save_state")

    def restore(
        self, agent_id: str, session_id: str, name: str, config: Optional[Any] = None
    ) -> None:
        """Restores a session to a kept state."""
        refuse("restore_state")

    def list_checkpoints(self, agent_id: str) -> list[SandboxCheckpoint]:
        """The kept states of an agent."""
        refuse("list_checkpoints")

    def delete_checkpoint(self, agent_id: str, name: str) -> None:
        """Removes a kept state."""
        refuse("delete_checkpoint")


def refuse(method: str) -> NoReturn:
    """Refuses a method that needs checkpoints."""
    raise NotImplementedError(
        f"{method}: this version of Stockade has no checkpoints; keep results in /output, which is "
        "a directory of the host"
    )

"""Checkpoints of sessions, in the store of Stockade."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

import stockade

if TYPE_CHECKING:
    from ..sandbox_provider import SandboxConfig
    from .provider import DockerSandboxProvider

_Result = TypeVar("_Result")

# The most characters of a session in the store.
_MOST = 63


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


def _labels(agent_id: str) -> tuple[str, str]:
    """The two names of an agent in the store, also of one whose id is too long for it. A state that
    replaces another one is kept under the name that the other one does not have."""
    first, second = f"agent-{agent_id}", f"again-{agent_id}"
    if len(first) <= _MOST:
        return first, second
    digest = hashlib.sha256(agent_id.encode()).hexdigest()[:16]
    return f"{first[: _MOST - 17]}-{digest}", f"{second[: _MOST - 17]}-{digest}"


def _kept(agent_id: str) -> dict[str, list[stockade.Checkpoint]]:
    """The checkpoints of an agent by name, the newest first. A replaced one is there only while, or
    because, its removal did not end."""
    found: dict[str, list[stockade.Checkpoint]] = {}
    for label in _labels(agent_id):
        for kept in _translated(functools.partial(stockade.checkpoints, label)):
            found.setdefault(kept.name, []).append(kept)
    for same in found.values():
        same.sort(key=_age, reverse=True)
    return found


def _remove(kept: stockade.Checkpoint) -> None:
    _translated(lambda: stockade.remove_checkpoint(kept.reference))


@dataclass
class SandboxCheckpoint:
    """A kept state of a session."""

    agent_id: str
    name: str
    image_tag: str
    """A reference, which ``restore_state`` and ``stockade restore`` take. ``restore_state`` finds
    the newest state of the name, also by the reference of one that it replaced."""
    created_at: str = field(default_factory=_now)


class SandboxStateManager:
    """Keeps and restores states of the sessions of a provider."""

    def __init__(self, provider: DockerSandboxProvider) -> None:
        self._provider = provider

    def save(self, agent_id: str, session_id: str, name: str) -> SandboxCheckpoint:
        """Keeps the files of a session. A state of the agent with the same name is replaced, once
        the new one is kept."""
        session = self._provider._registry.find(agent_id, session_id)
        replaced = _kept(agent_id).get(name, [])
        for older in replaced[1:]:
            _remove(older)
        first, second = _labels(agent_id)
        label = second if replaced and replaced[0].session == first else first
        kept = _translated(lambda: session.sandbox._keep(f"{label}/{name}"))
        for older in replaced[:1]:
            _remove(older)
        return _checkpoint(agent_id, kept)

    def restore(
        self,
        agent_id: str,
        session_id: str,
        name: str,
        config: Optional[SandboxConfig] = None,
    ) -> None:
        """Brings the files of a session back to a state, by its name or its ``image_tag``."""
        session = self._provider._registry.find(agent_id, session_id)
        if config is not None and config != session.config:
            message = "restore_state does not change the config of a session"
            raise ValueError(f"{message}; create a session with it and restore there")
        owner, _, own = name.rpartition("/")
        if owner and owner not in _labels(agent_id):
            raise ValueError(f"'{name}' is not a state of agent '{agent_id}'")
        known = _kept(agent_id).get(own)
        reference = known[0].reference if known else f"{_labels(agent_id)[0]}/{own}"
        _translated(lambda: session.sandbox.restore(reference, any_policy=True))

    def list_checkpoints(self, agent_id: str) -> list[SandboxCheckpoint]:
        """The kept states of an agent, oldest first."""
        newest = sorted((same[0] for same in _kept(agent_id).values()), key=_age)
        return [_checkpoint(agent_id, kept) for kept in newest]

    def delete_checkpoint(self, agent_id: str, name: str) -> None:
        """Removes a kept state; KeyError for an unknown one."""
        known = _kept(agent_id).get(name)
        if known is None:
            raise KeyError(f"No checkpoint '{name}' of agent '{agent_id}'")
        for kept in known:
            _remove(kept)


def _age(kept: stockade.Checkpoint) -> int:
    return kept.created_ms


def _checkpoint(agent_id: str, kept: stockade.Checkpoint) -> SandboxCheckpoint:
    created = datetime.fromtimestamp(kept.created_ms / 1000, timezone.utc).isoformat()
    return SandboxCheckpoint(agent_id, kept.name, kept.reference, created)


def _translated(act: Callable[[], _Result]) -> _Result:
    """Runs an act with the exceptions of the original: ValueError for names, RuntimeError else."""
    try:
        return act()
    except stockade.InvalidError:
        raise
    except stockade.StockadeError as error:
        raise RuntimeError(str(error)) from error

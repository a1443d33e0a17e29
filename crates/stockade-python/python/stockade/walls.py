"""Walls: what isolates a sandbox, and what this host can enforce."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Optional

from . import _bridge, _stockade, errors
from ._stockade import Failure, Session
from .azure import Azure


@dataclass(frozen=True)
class WallReport:
    """What one wall can do on this host."""

    provider: str
    """Its name, as ``Sandbox(provider=...)`` takes it."""
    isolation: str
    """How strong it is."""
    built_in: bool
    """Whether this version has it."""
    usable: bool
    """Whether it can run here."""
    reason: Optional[str]
    """Why it cannot run here."""
    remedy: Optional[str]
    """What to do about that."""
    approximate: tuple[str, ...]
    """Controls that it enforces only approximately."""
    missing: tuple[str, ...]
    """Controls that this host does not let it enforce."""


@dataclass(frozen=True)
class Wall:
    """The wall of an open sandbox."""

    provider: str
    """Its name."""
    isolation: str
    """How strong it is."""
    controls: tuple[dict[str, Any], ...]
    """Every control of the policy with the mechanism that enforces it."""

    @classmethod
    def of_plan(cls, session: Session) -> Wall:
        """The wall of a session."""
        try:
            plan = json.loads(session.plan())
        except Failure as failure:
            raise errors.of_failure(failure) from None
        return cls(plan["provider"], plan["isolation"], tuple(plan["controls"]))


def doctor() -> list[WallReport]:
    """Probes what each wall can enforce on this host, fastest wall first."""
    return _reports(_bridge.wait(_stockade.doctor(_bridge.runtime())))


async def doctor_async() -> list[WallReport]:
    """The same as `doctor`, for asyncio."""
    return _reports(await _bridge.wait_async(_stockade.doctor(_bridge.runtime())))


def wall_report(
    provider: str,
    *,
    quick: bool = False,
    docker_url: Optional[str] = None,
    runtime: Optional[str] = None,
    azure: Optional[Azure] = None,
) -> WallReport:
    """Probes what one wall can enforce on this host. With `quick`, no wall is built for it."""
    try:
        probing = _stockade.wall(_bridge.runtime(), provider, quick, (docker_url, runtime), azure)
    except Failure as failure:
        raise errors.of_failure(failure) from None
    text = _bridge.wait(probing)
    if text is None:
        raise errors.UnavailableError(f"no wall is called {provider!r}", "see stockade.doctor()")
    return _reports(f"[{text}]")[0]


def has_image(image: str, *, docker_url: Optional[str] = None) -> bool:
    """Whether the container engine has an image that a sandbox can start from."""
    try:
        asking = _stockade.has_image(_bridge.runtime(), image, (docker_url, None))
    except Failure as failure:
        raise errors.of_failure(failure) from None
    found: bool = _bridge.wait(asking)
    return found


def _reports(text: str) -> list[WallReport]:
    walls = json.loads(text)
    for wall in walls:
        wall["approximate"], wall["missing"] = tuple(wall["approximate"]), tuple(wall["missing"])
    return [WallReport(**wall) for wall in walls]

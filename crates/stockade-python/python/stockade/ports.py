"""Ports of servers inside, forwarded to loopback ports of this host."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Optional

from . import _bridge, errors
from ._stockade import Failure, Operation, Session


class _Shared:
    """What the two kinds of forwarded port share."""

    def __init__(self, session: Session, view: dict[str, Any]) -> None:
        self._session = session
        self.port: int = view["port"]
        """The port inside."""
        self.address: str = view["address"]
        """The address on this host, which only the user of the sandbox can open."""

    @property
    def host(self) -> str:
        """The host of the address."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def local_port(self) -> int:
        """The port of the address."""
        return int(self.address.rpartition(":")[2])

    @property
    def url(self) -> str:
        """The address of a web server."""
        return f"http://{self.address}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.port}, {self.address!r})"


class Port(_Shared):
    """A forwarded port. It is closed at the end of its ``with`` block, or with its sandbox."""

    def __enter__(self) -> Port:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops forwarding it, and closes its connections. May be called again."""
        try:
            _bridge.wait(ask(self._session, "close", self.port, None))
        except (errors.InvalidError, errors.ClosedError):
            # It is closed already, or its sandbox is.
            pass


class AsyncPort(_Shared):
    """The same for asyncio."""

    async def __aenter__(self) -> AsyncPort:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops forwarding it, and closes its connections. May be called again."""
        try:
            await _bridge.wait_async(ask(self._session, "close", self.port, None))
        except (errors.InvalidError, errors.ClosedError):
            # It is closed already, or its sandbox is.
            pass


def ask(session: Session, act: str, port: int, listen: Optional[str]) -> Operation:
    """Starts a request about forwarded ports."""
    if not 0 < port < 65536 and act != "list":
        message = f"{port} is not a port"
        raise errors.InvalidError(message, "pass the port that the server inside listens on")
    try:
        return session.port(act, port, listen)
    except Failure as failure:
        raise errors.of_failure(failure) from None


def views(answer: str) -> list[dict[str, Any]]:
    """The forwarded ports of an answer."""
    found: list[dict[str, Any]] = json.loads(answer)
    return found

"""The record of a sandbox."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from . import _stockade, errors
from ._stockade import Failure, Session

# How often a reader that follows looks for new events.
_POLL = 0.05


class _Record:
    """The record of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _reader(self) -> _stockade.Events:
        reader: _stockade.Events = self._try(lambda: _stockade.Events(self._file()))
        return reader

    def _read(self, reader: _stockade.Events) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._try(reader.read)]

    def _summary(self) -> dict[str, Any]:
        counts: dict[str, Any] = json.loads(self._try(lambda: _stockade.summary(self._file())))
        return counts

    def _file(self) -> Any:
        file = self._session.identity()[1]
        if file is None:
            message = "no record of this sandbox is kept"
            raise errors.RecordError(message, "open it without record=False")
        return file

    @staticmethod
    def _try(act: Any) -> Any:
        try:
            return act()
        except Failure as failure:
            raise errors.of_failure(failure) from None


class Events(_Record):
    """The events of a sandbox, as its record keeps them."""

    def __call__(self, *, follow: bool = False) -> Iterator[dict[str, Any]]:
        """Iterates over the events, oldest first; with `follow`, until the sandbox has ended.

        Each is a dictionary with ``kind``, ``time``, ``sequence``, ``session`` and ``body``.
        """
        reader = self._reader()
        while True:
            events = self._read(reader)
            yield from events
            if not events:
                if not follow or reader.is_complete:
                    return
                time.sleep(_POLL)

    __iter__ = __call__

    def summary(self) -> dict[str, Any]:
        """Counts of requests and tool calls: by host, method, status and verdict, and by tool."""
        return self._summary()


class AsyncEvents(_Record):
    """The events of a sandbox, for asyncio."""

    async def __call__(self, *, follow: bool = False) -> AsyncIterator[dict[str, Any]]:
        """Iterates over the events, oldest first; with `follow`, until the sandbox has ended."""
        reader = await asyncio.to_thread(self._reader)
        while True:
            events = await asyncio.to_thread(self._read, reader)
            for event in events:
                yield event
            if not events:
                if not follow or reader.is_complete:
                    return
                await asyncio.sleep(_POLL)

    __aiter__ = __call__

    async def summary(self) -> dict[str, Any]:
        """Counts of requests and tool calls: by host, method, status and verdict, and by tool."""
        return await asyncio.to_thread(self._summary)

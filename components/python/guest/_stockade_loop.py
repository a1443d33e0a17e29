"""An event loop for asyncio where there are no sockets and no threads.

Tasks, timers and queues work. Work for an executor runs at once, in the loop's own thread.
"""

import asyncio
import asyncio.unix_events
import time


class _Clock:
    """Waits for time instead of for files."""

    def select(self, timeout):
        if timeout is None:
            raise RuntimeError("asyncio waits for something that cannot happen: no task is ready")
        if timeout > 0:
            time.sleep(timeout)
        return []


class Loop(asyncio.BaseEventLoop):
    """The loop of asyncio.run()."""

    def __init__(self):
        super().__init__()
        self._selector = _Clock()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass

    def run_in_executor(self, executor, function, *arguments):
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            future.set_exception(error)
        return future


def install():
    """Makes it the loop of every asyncio program."""
    asyncio.unix_events._UnixDefaultEventLoopPolicy._loop_factory = Loop
    asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = Loop
    asyncio.EventLoop = asyncio.unix_events.EventLoop = Loop

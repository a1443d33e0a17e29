"""Sandboxes for asyncio."""

from __future__ import annotations

import asyncio
import builtins
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

from . import _bridge, _core, errors
from ._core import Command, OnDenial, OnOutput, Path
from ._stockade import Session
from ._stockade import Execution as Running
from .async_command import AsyncCommandHandle
from .attached import SandboxInfo, _Attached, listed
from .events import AsyncEvents
from .execution import Execution, Usage
from .files import AsyncFiles
from .policy import Context, PolicyLike
from .tools import Tools
from .walls import Wall


class AsyncSandbox:
    """A sandbox for asyncio: ``async with AsyncSandbox() as sandbox``.

    It mirrors `Sandbox`. Cancelling a task that waits for a program kills the program.
    """

    def __init__(
        self,
        policy: PolicyLike = None,
        *,
        provider: Optional[str] = None,
        tools: Optional[Tools] = None,
        envs: Optional[Mapping[str, str]] = None,
        root: Optional[Path] = None,
        image: Optional[str] = None,
        docker_url: Optional[str] = None,
        runtime: Optional[str] = None,
        credentials: Sequence[str] = (),
        context: Optional[Context] = None,
        python: Optional[Path] = None,
        record: Union[bool, Path] = True,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_denial: Optional[OnDenial] = None,
    ) -> None:
        """Describes a sandbox; `open` opens it. The receivers may be coroutine functions.

        Args:
            policy: What is allowed: a `Policy`, the path of its file, or its clauses.
            provider: The wall, such as ``native`` or ``docker``; the default is the fastest that
                enforces the policy.
            tools: Functions that code inside can call, by name.
            envs: Environment variables of every program.
            root: A directory whose files are at ``/`` inside.
            image: A container image whose files are at ``/`` inside.
            docker_url: The address of the container engine; the default is that of the ``docker``
                command.
            runtime: The runtime of containers: ``auto``, ``runc``, ``crun``, ``runsc`` or
                ``kata-runtime``.
            credentials: The names in `envs` that may look like credentials, because they are passed
                in knowingly.
            context: Fields for the rules of the policy, such as ``agent_id``.
            python: The interpreter for Python code; the default is that of the environment.
            record: Whether to keep a record of events, or the directory for it.
            on_stdout: Receives the standard output of programs as it arrives.
            on_stderr: Receives the standard error of programs as it arrives.
            on_denial: Receives each denial when its program has ended.
        """
        self._on_stdout, self._on_stderr, self._on_denial = on_stdout, on_stderr, on_denial
        self._options: dict[str, Any] = {
            "policy": policy,
            "provider": provider,
            "tools": tools,
            "envs": envs,
            "root": root,
            "image": image,
            "docker_url": docker_url,
            "runtime": runtime,
            "credentials": credentials,
            "context": context,
            "python": python,
            "record": record,
        }
        self._opened: Optional[Session] = None
        self._is_attached = False
        self._is_closed = True

    @property
    def _session(self) -> Session:
        if self._opened is None:
            message = "the sandbox is not open yet"
            raise errors.ClosedError(message, "use `async with`, or `await AsyncSandbox.create()`")
        return self._opened

    async def open(self) -> AsyncSandbox:
        """Opens the sandbox, as ``async with`` does. Coroutine functions among the tools run in
        the event loop of the caller."""
        loop = asyncio.get_running_loop()
        self._opened = await _bridge.wait_async(_core.open_session(**self._options, loop=loop))
        self._is_closed = False
        _bridge.register(self)
        return self

    @classmethod
    async def attach(
        cls,
        name: str,
        *,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_denial: Optional[OnDenial] = None,
    ) -> AsyncSandbox:
        """Uses a sandbox that another process holds, such as one of ``stockade create``. Closing
        only leaves it; `kill` ends it."""
        attached: Any = _Attached(name)
        await _bridge.wait_async(_core.started(attached.inspect))
        sandbox = cls.__new__(cls)
        sandbox._on_stdout, sandbox._on_stderr = on_stdout, on_stderr
        sandbox._on_denial, sandbox._opened = on_denial, attached
        sandbox._is_attached = sandbox._is_closed = True
        return sandbox

    @staticmethod
    async def list() -> builtins.list[SandboxInfo]:
        """The sandboxes of this user that live in processes of their own."""
        return listed()

    @classmethod
    async def create(cls, policy: PolicyLike = None, **options: Any) -> AsyncSandbox:
        """Makes and opens a sandbox; the caller closes it."""
        return await cls(policy, **options).open()

    async def __aenter__(self) -> AsyncSandbox:
        return await self.open()

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # An exception in __init__ leaves no attribute.
        if not getattr(self, "_is_closed", True):
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __reduce__(self) -> Any:
        raise TypeError("a sandbox belongs to its process and cannot be pickled")

    async def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        arguments: Sequence[str] = (),
        stdin: Union[str, bytes, None] = None,
        envs: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        timeout: Optional[float] = None,
        context: Optional[Context] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        check: bool = False,
    ) -> Execution:
        """Runs code and returns when it has ended.

        Raises an `ExecutionError` if it did not end by itself, and with `check` also if it failed.
        """
        on_stdout, on_stderr = on_stdout or self._on_stdout, on_stderr or self._on_stderr
        running = _core.start_code(
            self._session,
            code,
            language=language,
            arguments=arguments,
            envs=envs,
            cwd=cwd,
            timeout=timeout,
            context=context,
            stdin=stdin,
            live=bool(on_stdout or on_stderr),
        )
        return await self._finish(running, on_stdout, on_stderr, check)

    async def run(
        self,
        command: Command,
        *,
        stdin: Union[str, bytes, None] = None,
        envs: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        timeout: Optional[float] = None,
        context: Optional[Context] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        check: bool = False,
    ) -> Execution:
        """Runs a command, a list of words or a line for ``sh``, and returns when it has ended.

        Raises an `ExecutionError` if it did not end by itself, and with `check` also if it failed.
        """
        on_stdout, on_stderr = on_stdout or self._on_stdout, on_stderr or self._on_stderr
        running = _core.start_command(
            self._session,
            command,
            envs=envs,
            cwd=cwd,
            timeout=timeout,
            context=context,
            stdin=stdin,
            live=bool(on_stdout or on_stderr),
        )
        return await self._finish(running, on_stdout, on_stderr, check)

    async def start(
        self,
        command: Command,
        *,
        stdin: Union[str, bytes, None, bool] = None,
        envs: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        timeout: Optional[float] = None,
        context: Optional[Context] = None,
    ) -> AsyncCommandHandle:
        """Starts a command and returns while it runs. With ``stdin=True`` it reads what
        `AsyncCommandHandle.send_stdin` sends."""
        running = _core.start_command(
            self._session,
            command,
            envs=envs,
            cwd=cwd,
            timeout=timeout,
            context=context,
            stdin=stdin,
            live=True,
        )
        return await self._handle(running)

    async def start_code(
        self,
        code: str,
        *,
        language: str = "python",
        arguments: Sequence[str] = (),
        stdin: Union[str, bytes, None, bool] = None,
        envs: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        timeout: Optional[float] = None,
        context: Optional[Context] = None,
    ) -> AsyncCommandHandle:
        """Starts code and returns while it runs."""
        running = _core.start_code(
            self._session,
            code,
            language=language,
            arguments=arguments,
            envs=envs,
            cwd=cwd,
            timeout=timeout,
            context=context,
            stdin=stdin,
            live=True,
        )
        return await self._handle(running)

    @property
    def files(self) -> AsyncFiles:
        """The files inside."""
        return AsyncFiles(self._session)

    @property
    def events(self) -> AsyncEvents:
        """The record: ``async for event in sandbox.events()``, ``await sandbox.events.summary()``."""
        return AsyncEvents(self._session)

    @property
    def wall(self) -> Wall:
        """The wall of this sandbox, and what it enforces."""
        return Wall.of_plan(self._session)

    async def usage(self) -> Usage:
        """What the sandbox used so far."""
        cpu, memory, tasks, _ = await _bridge.wait_async(_core.started(self._session.usage))
        return Usage(cpu_ms=cpu, memory_peak_bytes=memory, tasks_peak=tasks)

    async def pause(self) -> None:
        """Stops all programs until `resume`. Their time limits go on."""
        await _bridge.wait_async(_core.started(self._session.pause))

    async def resume(self) -> None:
        """Continues all programs."""
        await _bridge.wait_async(_core.started(self._session.resume))

    async def close(self) -> None:
        """Ends everything inside and waits until nothing is left. May be called again."""
        self._is_closed = True
        if self._opened is not None and not self._is_attached:
            # Continues although this task is cancelled: nothing may be left.
            await asyncio.shield(_bridge.wait_async(_core.started(self._opened.end)))

    async def kill(self) -> None:
        """Ends everything inside, also of an attached sandbox."""
        self._is_closed = True
        if self._opened is not None:
            await asyncio.shield(_bridge.wait_async(_core.started(self._opened.end)))

    def _abandon(self) -> None:
        self._is_closed = True
        if self._opened is not None:
            self._opened.end()

    async def _handle(self, running: Running) -> AsyncCommandHandle:
        handle = AsyncCommandHandle(running, self._on_denial)
        await handle._await_start()
        return handle

    async def _finish(
        self,
        running: Running,
        on_stdout: Optional[OnOutput],
        on_stderr: Optional[OnOutput],
        check: bool,
    ) -> Execution:
        if on_stdout or on_stderr:
            handle = AsyncCommandHandle(running, self._on_denial)
            return await handle.wait(on_stdout=on_stdout, on_stderr=on_stderr, check=check)
        execution, problem = _core.finish(await _bridge.wait_async(running.operation), check)
        return await _reported(execution, problem, self._on_denial)


async def _reported(
    execution: Execution, problem: Optional[Exception], on_denial: Optional[OnDenial]
) -> Execution:
    """Reports the denials of an execution, then returns it or raises its exception."""
    for denial in execution.denials if on_denial else ():
        assert on_denial is not None
        await _core.settle(on_denial(denial))
    if problem is not None:
        raise problem
    return execution



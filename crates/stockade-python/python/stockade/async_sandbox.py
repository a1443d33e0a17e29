"""Sandboxes for asyncio."""

from __future__ import annotations

import asyncio
import builtins
import json
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

from . import _bridge, _core, contexts, errors, ports, state
from ._core import Command, OnDenial, OnOutput, Path
from ._stockade import Session
from ._stockade import Execution as Running
from .async_command import AsyncCommandHandle
from .attached import SandboxInfo, _Attached, _forked, listed
from .azure import Azure
from .contexts import AsyncCodeContext, ContextInfo
from .events import AsyncEvents
from .execution import Execution, Usage
from .files import AsyncFiles
from .policy import Context, PolicyLike
from .ports import AsyncPort
from .state import Applied, Change, Checkpoint
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
        azure: Optional[Azure] = None,
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
            azure: The sandbox group of the wall ``aca``.
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
        self._label = state.new_label()
        self._options: Optional[dict[str, Any]] = {
            "policy": policy,
            "provider": provider,
            "tools": tools,
            "envs": envs,
            "root": root,
            "image": image,
            "docker_url": docker_url,
            "runtime": runtime,
            "azure": azure,
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
        assert self._options is not None
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
        attached.keep(await _bridge.wait_async(_core.started(attached.inspect)))
        sandbox = cls.__new__(cls)
        sandbox._on_stdout, sandbox._on_stderr = on_stdout, on_stderr
        sandbox._on_denial, sandbox._opened = on_denial, attached
        sandbox._label, sandbox._options = name, None
        sandbox._is_attached = sandbox._is_closed = True
        return sandbox

    @staticmethod
    async def list() -> builtins.list[SandboxInfo]:
        """The sandboxes of this user that live in processes of their own."""
        return await asyncio.to_thread(listed)

    @classmethod
    async def create(cls, policy: PolicyLike = None, **options: Any) -> AsyncSandbox:
        """Makes and opens a sandbox; the caller closes it."""
        return await cls(policy, **options).open()

    async def __aenter__(self) -> AsyncSandbox:
        # A fork is open already.
        return self if self._opened is not None else await self.open()

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
        credentials: Sequence[str] = (),
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
            credentials=credentials,
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
        credentials: Sequence[str] = (),
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
            credentials=credentials,
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
        credentials: Sequence[str] = (),
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
            credentials=credentials,
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
        credentials: Sequence[str] = (),
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
            credentials=credentials,
            cwd=cwd,
            timeout=timeout,
            context=context,
            stdin=stdin,
            live=True,
        )
        return await self._handle(running)

    async def context(
        self,
        name: Optional[str] = None,
        *,
        language: str = "python",
        cwd: Optional[str] = None,
        envs: Optional[Mapping[str, str]] = None,
        credentials: Sequence[str] = (),
    ) -> AsyncCodeContext:
        """An interpreter that keeps its state between calls: a new one, or the one with this
        name."""
        if name is not None:
            known = await _bridge.wait_async(contexts.ask(self._session, "list", None))
            if contexts.existing(known, name, language):
                return AsyncCodeContext(self._session, name, self._on_denial)
        asked = contexts.ask(
            self._session,
            "create",
            name,
            language=language,
            cwd=cwd,
            envs=envs,
            credentials=credentials,
        )
        created = contexts.infos(await _bridge.wait_async(asked))[0]
        return AsyncCodeContext(self._session, created.name, self._on_denial)

    async def contexts(self) -> builtins.list[ContextInfo]:
        """The contexts of this sandbox."""
        return contexts.infos(await _bridge.wait_async(contexts.ask(self._session, "list", None)))

    async def port(self, port: int, *, listen: Optional[str] = None) -> AsyncPort:
        """Forwards a port of a server inside to an address of loopback that only this user can
        open; `listen` chooses it, such as ``127.0.0.1:8000``."""
        answer = await _bridge.wait_async(ports.ask(self._session, "open", port, listen))
        return AsyncPort(self._session, ports.views(answer)[0])

    async def ports(self) -> builtins.list[AsyncPort]:
        """The forwarded ports."""
        answer = await _bridge.wait_async(ports.ask(self._session, "list", 0, None))
        return [AsyncPort(self._session, view) for view in ports.views(answer)]

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

    @property
    def label(self) -> str:
        """The name under which the checkpoints of this sandbox are kept."""
        return self._label

    async def checkpoint(self, name: str) -> Checkpoint:
        """Keeps all files that programs can write, apart from directories of the host. Programs are
        stopped during the copy."""
        reference = f"{self._label}/{name}"
        started = _core.started(lambda: self._session.checkpoint(reference))
        return state.view(json.loads(await _bridge.wait_async(started)))

    async def checkpoints(self) -> builtins.list[Checkpoint]:
        """The checkpoints of this sandbox."""
        return await asyncio.to_thread(state.checkpoints, self._label)

    async def restore(self, name: str, *, any_policy: bool = False) -> None:
        """Brings the files back to a checkpoint of this sandbox, or to any by its reference. Programs
        must have ended.

        The policy stays that of this sandbox. A checkpoint of another policy is refused, unless
        `any_policy` accepts its files.
        """
        reference = name if "/" in name else f"{self._label}/{name}"
        await _bridge.wait_async(_core.started(lambda: self._session.restore(reference, any_policy)))

    async def discard(self) -> None:
        """Throws away everything that programs wrote."""
        await _bridge.wait_async(_core.started(lambda: self._session.restore(None, False)))

    async def fork(self, name: Optional[str] = None) -> AsyncSandbox:
        """A new sandbox, opened like this one, with the files of a checkpoint or of now. The fork of
        an attached sandbox is attached too: it lives in a process of its own until `kill`."""
        kept = await self.checkpoint(state.passing_name()) if name is None else None
        reference = kept.reference if kept else str(name)
        reference = reference if "/" in reference else f"{self._label}/{reference}"
        if self._options is None:
            try:
                name = await asyncio.to_thread(_forked, self._label, reference)
            finally:
                if kept is not None:
                    await _forget(kept)
            return await type(self).attach(
                name,
                on_stdout=self._on_stdout,
                on_stderr=self._on_stderr,
                on_denial=self._on_denial,
            )
        options = dict(
            self._options,
            on_stdout=self._on_stdout,
            on_stderr=self._on_stderr,
            on_denial=self._on_denial,
        )
        fork = await type(self)(**options).open()
        try:
            await _bridge.wait_async(_core.started(lambda: fork._session.fill(reference)))
        except BaseException:
            await fork.close()
            raise
        finally:
            if kept is not None:
                await _forget(kept)
        return fork

    async def diff(self, earlier: Optional[str] = None) -> builtins.list[Change]:
        """What programs changed in the workspace since it started, or since a checkpoint."""
        kept = await self.checkpoint(state.passing_name())
        try:
            return await asyncio.to_thread(state.diff, kept.reference, earlier)
        finally:
            await _forget(kept)

    async def apply(
        self,
        to: Optional[Path] = None,
        *,
        only: Sequence[Path] = (),
        accept: Sequence[Path] = (),
        dry_run: bool = False,
    ) -> builtins.list[Applied]:
        """Writes changes of the workspace to the host: to the directory below its overlay, or `to`.

        Refused and conflicting changes stay out, and so does what tools of the host execute, unless
        `accept` names it.
        """
        kept = await self.checkpoint(state.passing_name())
        try:
            return await asyncio.to_thread(
                state.apply, kept.reference, to, only, accept, dry_run
            )
        finally:
            await _forget(kept)

    async def export(self, file: Path, name: Optional[str] = None) -> None:
        """Writes the files of now, or of a checkpoint, to a new file, such as ``work.tar.zst``.
        `import_checkpoint` and ``stockade import`` read it."""
        kept = await self.checkpoint(state.passing_name()) if name is None else None
        reference = kept.reference if kept else str(name)
        reference = reference if "/" in reference else f"{self._label}/{reference}"
        try:
            await asyncio.to_thread(state.export_checkpoint, reference, file)
        finally:
            if kept is not None:
                await _forget(kept)

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


async def _forget(kept: Checkpoint) -> None:
    """Removes a checkpoint, also if this task is cancelled meanwhile."""
    await asyncio.shield(asyncio.to_thread(state.remove_checkpoint, kept.reference))


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



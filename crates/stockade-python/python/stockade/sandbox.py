"""Sandboxes for ordinary, blocking programs."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

from . import _bridge, _core
from ._core import Command, OnDenial, OnOutput, Path
from ._stockade import Session
from ._stockade import Execution as Running
from .attached import SandboxInfo, _Attached, listed
from .command import CommandHandle
from .events import Events
from .execution import Execution, Usage
from .files import Files
from .policy import Context, PolicyLike
from .tools import Tools
from .walls import Wall


class Sandbox:
    """A sandbox that runs many programs and ends with its ``with`` block.

    All methods may be called from any thread, and at the same time.
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
        """Opens a sandbox.

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
        self._session: Session = _bridge.wait(
            _core.open_session(
                policy,
                provider=provider,
                tools=tools,
                envs=envs,
                root=root,
                image=image,
                docker_url=docker_url,
                runtime=runtime,
                credentials=credentials,
                context=context,
                python=python,
                record=record,
                loop=None,
            )
        )
        self._is_attached = False
        self._is_closed = False
        _bridge.register(self)

    @classmethod
    def attach(
        cls,
        name: str,
        *,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_denial: Optional[OnDenial] = None,
    ) -> Sandbox:
        """Uses a sandbox that another process holds, such as one of ``stockade create``. Closing
        only leaves it; `kill` ends it."""
        attached: Any = _Attached(name)
        _bridge.wait(_core.started(attached.inspect))
        sandbox = cls.__new__(cls)
        sandbox._on_stdout, sandbox._on_stderr = on_stdout, on_stderr
        sandbox._on_denial, sandbox._session = on_denial, attached
        sandbox._is_attached = sandbox._is_closed = True
        return sandbox

    @staticmethod
    def list() -> builtins.list[SandboxInfo]:
        """The sandboxes of this user that live in processes of their own."""
        return listed()

    @classmethod
    def create(cls, policy: PolicyLike = None, **options: Any) -> Sandbox:
        """Opens a sandbox; the same as ``Sandbox(...)``."""
        return cls(policy, **options)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # An exception in __init__ leaves no attribute.
        if not getattr(self, "_is_closed", True):
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __reduce__(self) -> Any:
        raise TypeError("a sandbox belongs to its process and cannot be pickled")

    def run_code(
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
        return self._finish(running, on_stdout, on_stderr, check)

    def run(
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
        return self._finish(running, on_stdout, on_stderr, check)

    def start(
        self,
        command: Command,
        *,
        stdin: Union[str, bytes, None, bool] = None,
        envs: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        timeout: Optional[float] = None,
        context: Optional[Context] = None,
    ) -> CommandHandle:
        """Starts a command and returns while it runs. With ``stdin=True`` it reads what
        `CommandHandle.send_stdin` sends."""
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
        return self._handle(running)

    def start_code(
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
    ) -> CommandHandle:
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
        return self._handle(running)

    @property
    def files(self) -> Files:
        """The files inside."""
        return Files(self._session)

    @property
    def events(self) -> Events:
        """The record: ``sandbox.events()`` iterates over it, ``sandbox.events.summary()`` counts."""
        return Events(self._session)

    @property
    def wall(self) -> Wall:
        """The wall of this sandbox, and what it enforces."""
        return Wall.of_plan(self._session)

    def usage(self) -> Usage:
        """What the sandbox used so far."""
        cpu, memory, tasks, _ = _bridge.wait(_core.started(self._session.usage))
        return Usage(cpu_ms=cpu, memory_peak_bytes=memory, tasks_peak=tasks)

    def pause(self) -> None:
        """Stops all programs until `resume`. Their time limits go on."""
        _bridge.wait(_core.started(self._session.pause))

    def resume(self) -> None:
        """Continues all programs."""
        _bridge.wait(_core.started(self._session.resume))

    def close(self) -> None:
        """Ends everything inside and waits until nothing is left. May be called again."""
        self._is_closed = True
        if not self._is_attached:
            _bridge.wait(_core.started(self._session.end))

    def kill(self) -> None:
        """Ends everything inside, also of an attached sandbox."""
        self._is_closed = True
        _bridge.wait(_core.started(self._session.end))

    def _abandon(self) -> None:
        self._is_closed = True
        self._session.end()

    def _handle(self, running: Running) -> CommandHandle:
        handle = CommandHandle(running, self._on_denial)
        handle._await_start()
        return handle

    def _finish(
        self,
        running: Running,
        on_stdout: Optional[OnOutput],
        on_stderr: Optional[OnOutput],
        check: bool,
    ) -> Execution:
        if on_stdout or on_stderr:
            handle = CommandHandle(running, self._on_denial)
            return handle.wait(on_stdout=on_stdout, on_stderr=on_stderr, check=check)
        execution, problem = _core.finish(_bridge.wait(running.operation), check)
        return _reported(execution, problem, self._on_denial)


def _reported(
    execution: Execution, problem: Optional[Exception], on_denial: Optional[OnDenial]
) -> Execution:
    """Reports the denials of an execution, then returns it or raises its exception."""
    for denial in execution.denials if on_denial else ():
        assert on_denial is not None
        on_denial(denial)
    if problem is not None:
        raise problem
    return execution



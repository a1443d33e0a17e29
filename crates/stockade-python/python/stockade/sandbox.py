"""Sandboxes for ordinary, blocking programs."""

from __future__ import annotations

import builtins
import json
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

from . import _bridge, _core, contexts, ports, state
from ._core import Command, OnDenial, OnOutput, Path
from ._stockade import Session
from ._stockade import Execution as Running
from .attached import SandboxInfo, _Attached, _forked, listed
from .azure import Azure
from .command import CommandHandle
from .contexts import CodeContext, ContextInfo
from .events import Events
from .execution import Execution, Usage
from .files import Files
from .policy import Context, PolicyLike
from .ports import Port
from .state import Applied, Change, Checkpoint
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
        azure: Optional[Azure] = None,
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
            "on_stdout": on_stdout,
            "on_stderr": on_stderr,
            "on_denial": on_denial,
        }
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
                azure=azure,
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
        attached.keep(_bridge.wait(_core.started(attached.inspect)))
        sandbox = cls.__new__(cls)
        sandbox._on_stdout, sandbox._on_stderr = on_stdout, on_stderr
        sandbox._on_denial, sandbox._session = on_denial, attached
        sandbox._label, sandbox._options = name, None
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
        return self._finish(running, on_stdout, on_stderr, check)

    def run(
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
        return self._finish(running, on_stdout, on_stderr, check)

    def start(
        self,
        command: Command,
        *,
        stdin: Union[str, bytes, None, bool] = None,
        envs: Optional[Mapping[str, str]] = None,
        credentials: Sequence[str] = (),
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
            credentials=credentials,
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
        credentials: Sequence[str] = (),
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
            credentials=credentials,
            cwd=cwd,
            timeout=timeout,
            context=context,
            stdin=stdin,
            live=True,
        )
        return self._handle(running)

    def context(
        self,
        name: Optional[str] = None,
        *,
        language: str = "python",
        cwd: Optional[str] = None,
        envs: Optional[Mapping[str, str]] = None,
        credentials: Sequence[str] = (),
    ) -> CodeContext:
        """An interpreter that keeps its state between calls: a new one, or the one with this name.

        Args:
            name: Its name; the default is a new one.
            language: Only ``python`` is accepted.
            cwd: The directory inside where a new one starts; the default is the workspace.
            envs: Environment variables of a new one.
            credentials: The names in `envs` that may look like credentials, because they are passed
                to it knowingly.
        """
        if name is not None:
            known = _bridge.wait(contexts.ask(self._session, "list", None))
            if contexts.existing(known, name, language):
                return CodeContext(self._session, name, self._on_denial)
        asked = contexts.ask(
            self._session,
            "create",
            name,
            language=language,
            cwd=cwd,
            envs=envs,
            credentials=credentials,
        )
        created = contexts.infos(_bridge.wait(asked))[0]
        return CodeContext(self._session, created.name, self._on_denial)

    def contexts(self) -> builtins.list[ContextInfo]:
        """The contexts of this sandbox."""
        return contexts.infos(_bridge.wait(contexts.ask(self._session, "list", None)))

    def port(self, port: int, *, listen: Optional[str] = None) -> Port:
        """Forwards a port of a server inside to an address of loopback that only this user can
        open; `listen` chooses it, such as ``127.0.0.1:8000``."""
        answer = _bridge.wait(ports.ask(self._session, "open", port, listen))
        return Port(self._session, ports.views(answer)[0])

    def ports(self) -> builtins.list[Port]:
        """The forwarded ports."""
        answer = _bridge.wait(ports.ask(self._session, "list", 0, None))
        return [Port(self._session, view) for view in ports.views(answer)]

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

    @property
    def label(self) -> str:
        """The name under which the checkpoints of this sandbox are kept."""
        return self._label

    def checkpoint(self, name: str) -> Checkpoint:
        """Keeps all files that programs can write, apart from directories of the host. Programs are
        stopped during the copy."""
        return self._keep(f"{self._label}/{name}")

    def _keep(self, reference: str) -> Checkpoint:
        started = _core.started(lambda: self._session.checkpoint(reference))
        return state.view(json.loads(_bridge.wait(started)))

    def checkpoints(self) -> builtins.list[Checkpoint]:
        """The checkpoints of this sandbox."""
        return state.checkpoints(self._label)

    def restore(self, name: str, *, any_policy: bool = False) -> None:
        """Brings the files back to a checkpoint of this sandbox, or to any by its reference. Programs
        must have ended.

        The policy stays that of this sandbox. A checkpoint of another policy is refused, unless
        `any_policy` accepts its files.
        """
        reference = name if "/" in name else f"{self._label}/{name}"
        _bridge.wait(_core.started(lambda: self._session.restore(reference, any_policy)))

    def discard(self) -> None:
        """Throws away everything that programs wrote."""
        _bridge.wait(_core.started(lambda: self._session.restore(None, False)))

    def fork(self, name: Optional[str] = None) -> Sandbox:
        """A new sandbox, opened like this one, with the files of a checkpoint or of now. The fork of
        an attached sandbox is attached too: it lives in a process of its own until `kill`."""
        kept = self.checkpoint(state.passing_name()) if name is None else None
        reference = kept.reference if kept else str(name)
        reference = reference if "/" in reference else f"{self._label}/{reference}"
        if self._options is None:
            try:
                return self._attach_fork(_forked(self._label, reference))
            finally:
                if kept is not None:
                    state.remove_checkpoint(kept.reference)
        fork = type(self)(**self._options)
        try:
            _bridge.wait(_core.started(lambda: fork._session.fill(reference)))
        except BaseException:
            fork.close()
            raise
        finally:
            if kept is not None:
                state.remove_checkpoint(kept.reference)
        return fork

    def _attach_fork(self, name: str) -> Sandbox:
        on_stdout, on_stderr, on_denial = self._on_stdout, self._on_stderr, self._on_denial
        return type(self).attach(
            name, on_stdout=on_stdout, on_stderr=on_stderr, on_denial=on_denial
        )

    def diff(self, earlier: Optional[str] = None) -> builtins.list[Change]:
        """What programs changed in the workspace since it started, or since a checkpoint."""
        kept = self.checkpoint(state.passing_name())
        try:
            return state.diff(kept.reference, earlier)
        finally:
            state.remove_checkpoint(kept.reference)

    def apply(
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
        kept = self.checkpoint(state.passing_name())
        try:
            return state.apply(kept.reference, to, only, accept, dry_run)
        finally:
            state.remove_checkpoint(kept.reference)

    def export(self, file: Path, name: Optional[str] = None) -> None:
        """Writes the files of now, or of a checkpoint, to a new file, such as ``work.tar.zst``.
        `import_checkpoint` and ``stockade import`` read it."""
        kept = self.checkpoint(state.passing_name()) if name is None else None
        reference = kept.reference if kept else str(name)
        reference = reference if "/" in reference else f"{self._label}/{reference}"
        try:
            state.export_checkpoint(reference, file)
        finally:
            if kept is not None:
                state.remove_checkpoint(kept.reference)

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



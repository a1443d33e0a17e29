"""Providers whose sessions are sandboxes of Stockade."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import logging
import re
import shlex
import threading
from concurrent.futures import Future
from typing import Any, Callable, ClassVar, Optional

import stockade
from stockade import Sandbox, WallReport, _bridge, _core
from stockade._stockade import Execution as Running

from ._hardening import sanitize_env_vars
from ._judges import judge_of, ringed
from ._output import Output
from ._policies import session_policy
from ._sessions import Execution, Registry, Session, fields_of, new_id
from .code_scanner import SandboxCodeViolation, scan_code_for_subprocesses
from .sandbox_provider import (
    ExecutionHandle,
    SandboxConfig,
    SandboxProvider,
    SandboxResult,
    SessionHandle,
    SessionStatus,
)

_log = logging.getLogger("agent_sandbox")

# The fields that a context cannot replace.
_OWN_FIELDS = ("code", "language", "command", "agent_id", "session_id", "action", "arguments")

_AGENT_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}", re.ASCII)


class WallProvider(SandboxProvider):
    """A provider in front of one wall of Stockade. Any thread may use it."""

    _wall: ClassVar[str]
    """The wall, as Stockade names it."""
    _title: ClassVar[str]
    """What an error says first where the wall cannot be used."""
    _offers_tools: ClassVar[bool] = True
    """Whether code inside calls the tools of a policy; otherwise they only judge contexts."""
    _default_config: ClassVar[SandboxConfig] = SandboxConfig()
    """The config of a session that names none."""
    _context_variable: ClassVar[Optional[str]] = None
    """The variable through which code sees its context."""

    def __init__(self, tools: Optional[dict[str, Callable[..., Any]]] = None) -> None:
        self._tools = dict(tools or {})
        self._registry = Registry()

    def is_available(self) -> bool:
        """Whether this host has the wall."""
        return self.unavailable_reason is None

    @property
    def unavailable_reason(self) -> Optional[str]:
        """Why the wall cannot be used here, and what to do; None if it can."""
        report = self._report()
        return None if report.usable else f"{report.reason}; {report.remedy}"

    def create_session(
        self,
        agent_id: str,
        policy: Optional[Any] = None,
        config: Optional[SandboxConfig] = None,
        *,
        runtime: Optional[Any] = None,
    ) -> SessionHandle:
        """Makes a session under a policy; `runtime` is an object that judges code too."""
        check_agent_id(agent_id)
        session_id = new_id()
        is_shorter = isinstance(policy, stockade.Policy) and config is not None
        config = _copied(config or self._default_config)
        if not config.read_only_fs:
            _log.warning("read_only_fs=False: only /workspace, /tmp and /output are writable")
        config, judges, network = ringed(config, agent_id)
        if runtime is not None:
            judges.append(judge_of(runtime, agent_id, session_id))
        tools = list(self._tools) if self._offers_tools else None
        checked = session_policy(policy, config, tools, network)
        context = {"agent_id": agent_id, "session_id": session_id}
        sandbox, output = self._open(checked, config, context)
        session = Session(agent_id, session_id, sandbox, checked, config, judges, output)
        if is_shorter:
            session.timeout = min(session.timeout, config.timeout_seconds)
        self._registry.add(session)
        return SessionHandle(agent_id, session_id, SessionStatus.READY)

    async def create_session_async(
        self,
        agent_id: str,
        policy: Optional[Any] = None,
        config: Optional[SandboxConfig] = None,
        *,
        runtime: Optional[Any] = None,
    ) -> SessionHandle:
        """The same as `create_session`, for asyncio. Cancelling the task leaves no session."""
        make = functools.partial(self.create_session, agent_id, policy, config, runtime=runtime)
        making = _in_thread(make)
        try:
            return await asyncio.wrap_future(making)
        except asyncio.CancelledError:
            # The event loop may end before the session is made.
            making.add_done_callback(self._end_abandoned)
            raise

    def _end_abandoned(self, made: Future[SessionHandle]) -> None:
        """Ends a session whose task was cancelled while it was made."""
        if not made.cancelled() and made.exception() is None:
            self.destroy_session(made.result().agent_id, made.result().session_id)

    def execute_code(
        self,
        agent_id: str,
        session_id: str,
        code: str,
        *,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """Judges Python code by the policy of the session, then runs it."""
        execution = self._begin_code(agent_id, session_id, code, context)
        return self._ended(execution, lambda: _bridge.wait(execution.running.operation))

    async def execute_code_async(
        self,
        agent_id: str,
        session_id: str,
        code: str,
        *,
        context: Optional[dict[str, Any]] = None,
    ) -> ExecutionHandle:
        """The same as `execute_code`, for asyncio. Cancelling the task ends the code."""
        execution = self._begin_code(agent_id, session_id, code, context)
        try:
            report = await _bridge.wait_async(execution.running.operation)
        except asyncio.CancelledError:
            self._registry.abandon(execution)
            raise
        except stockade.StockadeError as error:
            return self._ended(execution, _raising(error))
        return await asyncio.to_thread(self._ended, execution, lambda: report)

    def destroy_session(self, agent_id: str, session_id: str) -> None:
        """Ends a session and everything in it; an unknown one is ignored."""
        self._registry.close(agent_id, session_id)

    def get_session_status(self, agent_id: str, session_id: str) -> SessionStatus:
        """The state of a session; DESTROYED for an unknown one."""
        return self._registry.status(agent_id, session_id)

    def get_execution_status(
        self, agent_id: str, session_id: str, execution_id: str
    ) -> ExecutionHandle:
        """An execution as it is now; KeyError for an unknown one."""
        return self._registry.handle(agent_id, session_id, execution_id)

    def list_executions(self, agent_id: str, session_id: str) -> list[ExecutionHandle]:
        """The executions of a session, also those that run, oldest first."""
        return self._registry.handles(agent_id, session_id)

    def cancel_execution(self, agent_id: str, session_id: str, execution_id: str) -> bool:
        """Ends a running execution; the session continues. False if it does not run."""
        return self._registry.cancel(agent_id, session_id, execution_id)

    def _report(self) -> WallReport:
        return stockade.wall_report(self._wall)

    def _used_wall(self) -> str:
        """The wall of sessions."""
        return self._wall

    def _options(self, config: SandboxConfig) -> dict[str, Any]:
        """More arguments for the sandbox of a session."""
        return {}

    def _session_options(self, context: dict[str, Any]) -> dict[str, Any]:
        """Arguments for the sandbox that depend on its session."""
        return {}

    def _open(
        self, policy: stockade.Policy, config: SandboxConfig, context: dict[str, Any]
    ) -> tuple[Sandbox, Output]:
        """Opens a sandbox, with what happens to its output."""
        envs = sanitize_env_vars(config.env_vars)
        options = {**self._options(config), **self._session_options(context)}
        tools = {name: self._tools[name] for name in policy.tools}
        try:
            sandbox = Sandbox(
                policy,
                provider=self._used_wall(),
                tools=tools,
                envs=envs,
                credentials=list(envs),
                context=context,
                **options,
            )
        except ValueError:
            raise
        except stockade.StockadeError as error:
            reason = self.unavailable_reason
            said = f"{self._title}: {reason}" if reason else f"cannot create a session: {error}"
            raise RuntimeError(said) from error
        return sandbox, Output()

    def _begin_code(
        self, agent_id: str, session_id: str, code: str, context: Optional[dict[str, Any]]
    ) -> Execution:
        """Judges code and starts it."""
        session = self._registry.find(agent_id, session_id)
        added = _added(context)
        tool = added.pop("tool_name", None)
        _judge_tool(session, tool, added)
        fields = fields_of(added, session)
        violations = scan_code_for_subprocesses(code)
        # The session judges and records every code itself; this decides which refusal is first.
        if not violations or not session.policy.why(code=code, context=fields):
            violations = []
        named = {} if tool is None else {"tool_name": tool}
        _ask_judges(session, {**fields, **named, "code": code})
        if violations:
            raise SandboxCodeViolation(violations)
        envs = {}
        if context is not None and self._context_variable:
            envs[self._context_variable] = json.dumps(context)
        start = functools.partial(
            _core.start_code, session.sandbox._session, code, language="python", arguments=()
        )
        return self._begin(session, start, envs, session.timeout, fields)

    def _ended(self, execution: Execution, report: Callable[[], Any]) -> ExecutionHandle:
        """Waits for the end of an execution and returns its handle. A denial is raised."""
        self._finish(execution, report)
        handle = execution.handle
        return self._registry.handle(handle.agent_id, handle.session_id, handle.execution_id)

    def _finish(self, execution: Execution, report: Callable[[], Any]) -> SandboxResult:
        try:
            ended, problem = _core.finish(report(), check=False)
        except stockade.InterruptedCallError:
            # Cancelled before it started.
            return self._registry.abandon(execution)
        except (stockade.LostError, stockade.ClosedError) as error:
            return self._registry.lose(execution, str(error))
        except stockade.StockadeError as error:
            return self._registry.refuse(execution, str(error))
        except BaseException:
            # Ctrl-C, for example.
            self._registry.abandon(execution)
            raise
        result = self._registry.finish(execution, ended)
        execution.session.output.take()
        if isinstance(problem, stockade.DeniedError):
            raise PermissionError(f"Policy denied: {problem.denial.why}") from problem
        return result

    def _run_in(
        self, session: Session, command: list[str], config: Optional[SandboxConfig]
    ) -> SandboxResult:
        """Runs a command in a session; a config can shorten the time and add variables."""
        timeout, envs = session.timeout, {}
        if config is not None:
            _same(config, session.config)
            timeout = min(timeout, config.timeout_seconds)
            envs = sanitize_env_vars(config.env_vars)
        words = [str(word) for word in command]
        fields = fields_of(None, session)
        _ask_judges(session, {**fields, "command": words, "code": shlex.join(words)})
        start = functools.partial(_core.start_command, session.sandbox._session, words)
        execution = self._begin(session, start, envs, timeout, fields)
        return self._finish(execution, lambda: _bridge.wait(execution.running.operation))

    def _begin(
        self,
        session: Session,
        start: Callable[..., Running],
        envs: dict[str, str],
        timeout: float,
        fields: dict[str, Any],
    ) -> Execution:
        """Starts a program in a session."""
        try:
            running = start(
                envs=envs,
                credentials=list(envs),
                cwd=None,
                timeout=timeout,
                stdin=None,
                live=False,
                context=fields,
            )
        except ValueError:
            raise
        except stockade.StockadeError as error:
            raise RuntimeError(f"the session cannot run a program: {error}") from error
        return self._registry.begin(session, running, timeout)


def check_agent_id(agent_id: str) -> None:
    """Refuses the id of an agent that is not plain."""
    if not isinstance(agent_id, str) or not _AGENT_ID.fullmatch(agent_id):
        raise ValueError(
            f"Invalid agent_id '{agent_id}': must match [a-zA-Z0-9][a-zA-Z0-9_.-]{{0,127}}"
        )


def _copied(config: SandboxConfig) -> SandboxConfig:
    """A copy that the caller cannot change any more."""
    lists = {"network_allowlist": list(config.network_allowlist)}
    lists["tool_allowlist"] = list(config.tool_allowlist)
    copies: dict[str, Any] = {**lists, "env_vars": dict(config.env_vars)}
    return dataclasses.replace(config, **copies)


def _added(context: Optional[dict[str, Any]]) -> dict[str, Any]:
    """The fields that a context adds; it never replaces those of Stockade."""
    if context is None:
        return {}
    replaced = [name for name in _OWN_FIELDS if name in context]
    if replaced:
        _log.warning("a context cannot replace these fields: %s", ", ".join(replaced))
    try:
        json.dumps(context, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"context must be plain JSON data: {error}") from error
    return {name: value for name, value in context.items() if name not in _OWN_FIELDS}


def _judge_tool(session: Session, tool: Any, fields: dict[str, Any]) -> None:
    """Judges code that runs for a tool, which its context names, as a call of that tool."""
    if tool is None:
        return
    policy = session.policy
    if not policy.tools:
        # No list of tools: only the rules judge.
        clauses = {**policy.to_dict(), "tool_allowlist": [str(tool)]}
        policy = stockade.Policy.build(**clauses)
    verdict = policy.why(tool=str(tool), context=fields_of(fields, session))
    if not verdict:
        raise PermissionError(f"Policy denied: {verdict.why}")


def _ask_judges(session: Session, fields: dict[str, Any]) -> None:
    """Asks the judges next to the policy about code or a command; each may raise."""
    for judge in session.judges:
        judge({**fields, "action": "execute"})


def _same(config: SandboxConfig, own: SandboxConfig) -> None:
    """Refuses a config that would change a session."""
    usual = SandboxConfig()
    for it in dataclasses.fields(SandboxConfig):
        if it.name in ("env_vars", "timeout_seconds"):
            continue
        asked = getattr(config, it.name)
        if asked != getattr(usual, it.name) and asked != getattr(own, it.name):
            raise ValueError(f"a session keeps the {it.name} that it was created with")


def _in_thread(act: Callable[[], SessionHandle]) -> Future[SessionHandle]:
    """Acts on a thread of its own, which finishes although no task waits for it."""
    future: Future[SessionHandle] = Future()

    def work() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(act())
            except BaseException as error:  # noqa: BLE001 - the waiting task raises it
                future.set_exception(error)

    threading.Thread(target=work, name="agent-sandbox").start()
    return future


def _raising(error: Exception) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act

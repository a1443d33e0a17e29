"""The extension module. Use the classes of the package `stockade` instead."""

import os
from typing import Any, Callable, Optional, final

class Failure(Exception):
    """A failure: its kind, message and remedy, and details as JSON."""

def version() -> str:
    """The version of Stockade."""

def policy_schema() -> str:
    """The JSON schema of the policy language."""

def presets() -> list[tuple[str, str]]:
    """The name and the text of each policy to start from."""

def doctor(runtime: Runtime) -> Operation:
    """Probes every wall. The result is JSON."""

def summary(path: os.PathLike[str]) -> str:
    """Counts of the requests and tool calls of a record, as JSON."""

@final
class Runtime:
    """The runtime that all sandboxes of a process share."""

    def __new__(cls) -> Runtime: ...
    @property
    def sessions(self) -> int:
        """How many sandboxes are open."""

    def close(self) -> None:
        """Waits until no sandbox is open, for at most ten seconds, and ends all threads."""

@final
class Operation:
    """One operation. The shared runtime carries it out."""

    def wait(self) -> Any:
        """Waits for the end without the GIL and returns the result."""

    def result(self) -> Any:
        """The result of an operation that has ended; it can be taken once."""

    def cancel(self) -> None:
        """Ends the operation early."""

    def call_when_done(self, callback: Callable[[], None]) -> bool:
        """Calls a function once, on another thread, when the operation has ended."""

@final
class Policy:
    """A checked policy."""

    @staticmethod
    def parse(name: str, text: bytes, base: str) -> Policy:
        """Checks a policy text; its relative paths start at `base`."""

    @staticmethod
    def combine(policies: list[Policy]) -> Policy:
        """The policy that allows what all of these allow."""

    @property
    def name(self) -> str:
        """The policy's name."""

    @property
    def tools(self) -> list[str]:
        """The tools that it allows."""

    def yaml(self) -> str:
        """The whole policy with every default, as YAML."""

    def json(self) -> str:
        """The same as JSON."""

    def why_host(
        self, host: str, address: Optional[str], request: Optional[tuple[str, str]]
    ) -> str:
        """Whether a connection is allowed, as JSON."""

    def why_path(self, path: str, write: bool) -> str:
        """Whether a path inside can be read or changed, as JSON."""

    def why_code(self, code: str, language: str) -> str:
        """Whether code may run, as JSON."""

    def why_command(self, argv: list[str]) -> str:
        """Whether a command may run, as JSON."""

    def why_tool(self, tool: str, arguments: Optional[str]) -> str:
        """Whether a tool may be called, as JSON."""

@final
class ToolCall:
    """One call of a tool, which its function answers."""

    def succeed(self, result: str) -> None:
        """Answers with a result as JSON."""

    def fail(self, message: str) -> None:
        """Answers with an error."""

    def when_cancelled(self, function: Callable[[], object]) -> bool:
        """Calls a function if the call is cancelled before it is answered."""

@final
class Session:
    """An open sandbox."""

    @staticmethod
    def open(
        runtime: Runtime,
        policy: Policy,
        *,
        provider: Optional[str],
        root: Optional[str],
        image: Optional[str],
        envs: list[tuple[str, str]],
        tools: list[tuple[str, str, str, Optional[str], Callable[[str, ToolCall], None]]],
        record: Optional[tuple[Optional[str]]],
        python: Optional[str],
        protected: list[str],
    ) -> Operation:
        """Opens a sandbox. The result is a Session."""

    def execute(
        self,
        argv: list[str],
        *,
        language: Optional[str],
        code: Optional[bytes],
        name: str,
        envs: list[tuple[str, str]],
        cwd: Optional[str],
        timeout: Optional[float],
        stdin: Optional[bytes],
        interactive: bool,
        live: bool,
    ) -> Execution:
        """Starts a program: code in a language, or a command."""

    def plan(self) -> str:
        """The wall with every control that it enforces, as JSON."""

    def identity(self) -> tuple[Optional[str], Optional[os.PathLike[str]]]:
        """The id of the session and the file of its record, if one is kept."""

    def usage(self) -> Operation:
        """What the sandbox used so far."""

    def pause(self) -> Operation:
        """Stops all programs until resume."""

    def resume(self) -> Operation:
        """Continues all programs."""

    def end(self) -> Operation:
        """Ends everything inside. Does nothing if the sandbox has ended."""

@final
class Execution:
    """One program of a sandbox."""

    @property
    def operation(self) -> Operation:
        """Ends with the program."""

    @property
    def has_ended(self) -> bool:
        """Whether the program has ended."""

    def started(self) -> Operation:
        """Waits until the program has started."""

    def next_output(self) -> Operation:
        """The next piece of output: its descriptor, 1 or 2, and its bytes."""

    def write(self, bytes: bytes) -> Operation:
        """Sends bytes to the standard input."""

    def close_input(self) -> Operation:
        """Ends the standard input."""

    def signal(self, signal: int) -> Operation:
        """Sends a signal to the program."""

    def kill(self) -> Operation:
        """Kills the program and its descendants."""

@final
class Events:
    """Reads the record of a sandbox, also while it is written."""

    def __new__(cls, path: os.PathLike[str]) -> Events: ...
    def read(self) -> list[str]:
        """The next complete events, each as JSON; empty at the current end."""

    @property
    def is_complete(self) -> bool:
        """Whether the last event of a complete record was read."""

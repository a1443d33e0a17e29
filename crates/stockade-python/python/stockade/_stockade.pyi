"""The extension module. Use the classes of the package `stockade` instead."""

import os
from typing import Any, Callable, Optional, Union, final

from .azure import Azure

__all__ = [
    "Call",
    "Events",
    "Execution",
    "Failure",
    "FileStream",
    "FileWatch",
    "Files",
    "Operation",
    "Policy",
    "Remote",
    "Runtime",
    "Session",
    "ToolCall",
    "apply_checkpoint",
    "checkpoints",
    "command_line",
    "differences",
    "doctor",
    "export_checkpoint",
    "has_image",
    "import_checkpoint",
    "policy_schema",
    "presets",
    "remove_checkpoint",
    "sessions",
    "summary",
    "version",
    "wall",
]

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

def wall(
    runtime: Runtime,
    name: str,
    quick: bool,
    container: tuple[Optional[str], Optional[str]],
    azure: Optional[Azure],
) -> Operation:
    """Probes one wall. The result is JSON, None if no wall has this name."""

def has_image(
    runtime: Runtime, image: str, container: tuple[Optional[str], Optional[str]]
) -> Operation:
    """Whether a container engine has an image."""

def command_line(executable: str, leading: list[str], arguments: list[str]) -> int:
    """Runs the command line and returns its exit code. A process calls it once."""

def sessions() -> str:
    """The sessions of this user, as JSON."""

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
    def written(name: str, text: bytes) -> str:
        """The values of a policy text as they are written, as JSON."""

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

    def why_code(self, code: str, language: str, fields: str) -> str:
        """Whether code may run, as JSON."""

    def why_command(self, argv: list[str], fields: str) -> str:
        """Whether a command may run, as JSON."""

    def why_tool(self, tool: str, arguments: Optional[str], fields: str) -> str:
        """Whether a tool may be called, as JSON."""

@final
class Call:
    """A call of a context that runs."""

    @property
    def operation(self) -> Operation:
        """Ends with the call."""

    def next_event(self) -> Operation:
        """The next event: 1 or 2 and output, or 0 and a value as JSON. None at the end."""

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
        container: tuple[Optional[str], Optional[str]],
        azure: Optional[Azure],
        envs: list[tuple[str, str]],
        credentials: list[str],
        tools: list[tuple[str, str, str, Optional[str], Callable[[str, ToolCall], None]]],
        record: Optional[tuple[Optional[str]]],
        python: Optional[str],
        protected: list[str],
        context: str,
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
        credentials: list[str],
        cwd: Optional[str],
        timeout: Optional[float],
        stdin: Optional[bytes],
        interactive: bool,
        live: bool,
        context: Optional[str] = None,
    ) -> Execution:
        """Starts a program: code in a language, or a command."""

    def run_in_context(
        self,
        name: str,
        code: bytes,
        *,
        language: str,
        envs: list[tuple[str, str]],
        credentials: list[str],
        timeout: Optional[float],
        live: bool,
        context: Optional[str] = None,
    ) -> Call:
        """Runs code in a context, which is started if it is missing."""

    def contexts(
        self,
        act: str,
        name: Optional[str],
        *,
        language: str,
        cwd: Optional[str],
        envs: list[tuple[str, str]],
        credentials: list[str],
    ) -> Operation:
        """Creates, lists, interrupts, restarts or removes contexts."""

    def port(self, act: str, port: int, listen: Optional[str]) -> Operation:
        """Opens, lists or closes forwarded ports."""

    def files(self) -> Files:
        """The files inside."""

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

    def checkpoint(self, reference: str) -> Operation:
        """Keeps the files under ``SESSION/NAME``. The result is JSON."""

    def restore(self, reference: Optional[str], any_policy: bool) -> Operation:
        """Replaces the files by those of a checkpoint, or discards every change."""

    def fill(self, reference: str) -> Operation:
        """Writes the files of a checkpoint into a sandbox in which nothing ran yet."""

    def end(self) -> Operation:
        """Ends everything inside. Does nothing if the sandbox has ended."""

@final
class Remote:
    """A session that another process holds."""

    def __new__(cls, runtime: Runtime, name: str) -> Remote: ...
    def execute(
        self,
        argv: list[str],
        *,
        language: Optional[str],
        code: Optional[bytes],
        name: str,
        envs: list[tuple[str, str]],
        credentials: list[str],
        cwd: Optional[str],
        timeout: Optional[float],
        stdin: Optional[bytes],
        interactive: bool,
        live: bool,
    ) -> Execution:
        """Starts a program: code in a language, or a command."""

    def run_in_context(
        self,
        name: str,
        code: bytes,
        *,
        language: str,
        envs: list[tuple[str, str]],
        credentials: list[str],
        timeout: Optional[float],
        live: bool,
    ) -> Call:
        """Runs code in a context, which is started if it is missing."""

    def contexts(
        self,
        act: str,
        name: Optional[str],
        *,
        language: str,
        cwd: Optional[str],
        envs: list[tuple[str, str]],
        credentials: list[str],
    ) -> Operation:
        """Creates, lists, interrupts, restarts or removes contexts."""

    def port(self, act: str, port: int, listen: Optional[str]) -> Operation:
        """Opens, lists or closes forwarded ports."""

    def inspect(self) -> Operation:
        """The session, as JSON."""

    def usage(self) -> Operation:
        """What the sandbox used so far, as for a Session."""

    def files(self) -> Files:
        """The files inside."""

    def pause(self) -> Operation:
        """Stops all programs until resume."""

    def resume(self) -> Operation:
        """Continues all programs."""

    def checkpoint(self, name: str) -> Operation:
        """Keeps the files under a name. The result describes the checkpoint, as JSON."""

    def restore(self, reference: Optional[str], any_policy: bool) -> Operation:
        """Replaces the files by those of a checkpoint, or discards every change."""

    def remove(self) -> Operation:
        """Ends the session."""

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
class Files:
    """The files inside a sandbox. Paths are bytes."""

    def read(self, path: bytes, most: int) -> Operation:
        """Reads a file of at most `most` bytes."""

    def write(self, path: bytes, content: bytes, mode: str, executable: bool) -> Operation:
        """Writes a file. The mode is `replace`, `create` or `append`."""

    def list(self, path: bytes, depth: int) -> Operation:
        """Lists a directory: pairs of a path below it and what it is."""

    def stat(self, path: bytes, follow: bool) -> Operation:
        """Describes a file; a link itself unless `follow`."""

    def make_directory(self, path: bytes) -> Operation:
        """Makes a directory, with those above it."""

    def rename(self, from_: bytes, to: bytes, replace: bool) -> Operation:
        """Renames a file or a directory."""

    def remove(self, path: bytes, recursive: bool) -> Operation:
        """Removes a file or a directory. The result is false if nothing was there."""

    def watch(self, path: bytes, recursive: bool) -> Operation:
        """Watches a directory. The result is a FileWatch."""

    def upload(self, path: bytes, archive: str) -> Operation:
        """Unpacks a tar archive, a file of the host, into a directory."""

    def download(self, path: bytes) -> Operation:
        """A file or a tree as a tar archive. The result is a FileStream."""

@final
class FileWatch:
    """Reports the changes in a directory."""

    def next(self) -> Operation:
        """The next change: its kind and its path below the directory. None at the end."""

@final
class FileStream:
    """Bytes from inside."""

    def next(self) -> Operation:
        """The next bytes; empty at the end."""

@final
class Events:
    """Reads the record of a sandbox, also while it is written."""

    def __new__(cls, path: os.PathLike[str]) -> Events: ...
    def read(self) -> list[str]:
        """The next complete events, each as JSON; empty at the current end."""

    @property
    def is_complete(self) -> bool:
        """Whether the last event of a complete record was read."""

def checkpoints(session: Optional[str]) -> str:
    """The checkpoints of a session, or all, as JSON."""

def export_checkpoint(reference: str, file: str) -> None:
    """Writes a checkpoint to a new file."""

def import_checkpoint(file: str, reference: Optional[str]) -> str:
    """Reads a checkpoint from a file. The result describes it, as JSON."""

def remove_checkpoint(reference: str) -> None:
    """Removes a checkpoint."""

def differences(reference: str, *, earlier: Optional[str], all: bool) -> str:
    """What a checkpoint changed, as JSON."""

def apply_checkpoint(
    reference: str,
    *,
    to: Optional[Union[str, bytes]],
    only: list[Union[str, bytes]],
    accept: list[Union[str, bytes]],
    dry_run: bool,
) -> str:
    """Writes changes of a checkpoint to the host; what became of each as JSON."""

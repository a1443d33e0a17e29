"""Run code written by AI agents behind a wall it cannot cross.

    from stockade import Sandbox

    with Sandbox() as sandbox:
        print(sandbox.run_code("print(1 + 1)").stdout)
"""

from . import _conflict, errors
from ._stockade import version as _version
from .async_command import AsyncCommandHandle, AsyncOutputStream
from .async_sandbox import AsyncSandbox
from .attached import SandboxInfo
from .azure import Azure
from .command import CommandHandle, OutputStream
from .contexts import AsyncCodeContext, CodeContext, ContextInfo
from .errors import *  # noqa: F403
from .events import AsyncEvents, Events
from .execution import Denial, Execution, Usage
from .files import AsyncFiles, EntryInfo, Files, FilesystemEvent
from .policy import Policy, Verdict
from .ports import AsyncPort, Port
from .results import CodeError, CodeExecution, Result
from .sandbox import Sandbox
from .state import (
    Applied,
    Change,
    Checkpoint,
    checkpoints,
    export_checkpoint,
    import_checkpoint,
    remove_checkpoint,
)
from .walls import Wall, WallReport, doctor, doctor_async, has_image, wall_report

__version__ = _version()

_conflict.guard()

__all__ = [
    "Applied",
    "AsyncCodeContext",
    "AsyncCommandHandle",
    "AsyncEvents",
    "AsyncFiles",
    "AsyncOutputStream",
    "AsyncPort",
    "AsyncSandbox",
    "Azure",
    "Change",
    "Checkpoint",
    "CodeContext",
    "CodeError",
    "CodeExecution",
    "CommandHandle",
    "ContextInfo",
    "Denial",
    "EntryInfo",
    "Events",
    "Execution",
    "Files",
    "FilesystemEvent",
    "OutputStream",
    "Policy",
    "Port",
    "Result",
    "Sandbox",
    "SandboxInfo",
    "Usage",
    "Verdict",
    "Wall",
    "WallReport",
    "checkpoints",
    "doctor",
    "doctor_async",
    "errors",
    "export_checkpoint",
    "has_image",
    "import_checkpoint",
    "remove_checkpoint",
    "wall_report",
    *errors.__all__,
]

"""Run code written by AI agents behind a wall it cannot cross.

    from stockade import Sandbox

    with Sandbox() as sandbox:
        print(sandbox.run_code("print(1 + 1)").stdout)
"""

from . import errors
from ._stockade import version as _version
from .async_command import AsyncCommandHandle, AsyncOutputStream
from .async_sandbox import AsyncSandbox
from .attached import SandboxInfo
from .command import CommandHandle, OutputStream
from .errors import *  # noqa: F403
from .events import AsyncEvents, Events
from .execution import Denial, Execution, Usage
from .files import AsyncFiles, EntryInfo, Files, FilesystemEvent
from .policy import Policy, Verdict
from .sandbox import Sandbox
from .walls import Wall, WallReport, doctor, doctor_async, has_image, wall_report

__version__ = _version()

__all__ = [
    "AsyncCommandHandle",
    "AsyncEvents",
    "AsyncFiles",
    "AsyncOutputStream",
    "AsyncSandbox",
    "CommandHandle",
    "Denial",
    "EntryInfo",
    "Events",
    "Execution",
    "Files",
    "FilesystemEvent",
    "OutputStream",
    "Policy",
    "Sandbox",
    "SandboxInfo",
    "Usage",
    "Verdict",
    "Wall",
    "WallReport",
    "doctor",
    "doctor_async",
    "errors",
    "has_image",
    "wall_report",
    *errors.__all__,
]

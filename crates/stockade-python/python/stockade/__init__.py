"""Run code written by AI agents behind a wall it cannot cross.

    from stockade import Sandbox

    with Sandbox() as sandbox:
        print(sandbox.run_code("print(1 + 1)").stdout)
"""

from . import errors
from ._stockade import version as _version
from .async_command import AsyncCommandHandle, AsyncOutputStream
from .async_sandbox import AsyncSandbox
from .command import CommandHandle, OutputStream
from .errors import *  # noqa: F403
from .events import AsyncEvents, Events
from .execution import Denial, Execution, Usage
from .policy import Policy, Verdict
from .sandbox import Sandbox
from .walls import Wall, WallReport, doctor, doctor_async

__version__ = _version()

__all__ = [
    "AsyncCommandHandle",
    "AsyncEvents",
    "AsyncOutputStream",
    "AsyncSandbox",
    "CommandHandle",
    "Denial",
    "Events",
    "Execution",
    "OutputStream",
    "Policy",
    "Sandbox",
    "Usage",
    "Verdict",
    "Wall",
    "WallReport",
    "doctor",
    "doctor_async",
    "errors",
    *errors.__all__,
]

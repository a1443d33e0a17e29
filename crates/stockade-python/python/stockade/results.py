"""What a call of a context shows: values as MIME data, and exceptions."""

from __future__ import annotations

import base64
import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Optional

from . import _core, errors
from .execution import Execution

_MIME = {
    "text": "text/plain",
    "html": "text/html",
    "markdown": "text/markdown",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "pdf": "application/pdf",
    "latex": "text/latex",
    "json": "application/json",
    "javascript": "application/javascript",
    "data": "e2b/data",
    "chart": "e2b/chart",
}


@dataclass(frozen=True)
class Result:
    """A value that a call shows: that of its last expression, or one that it displayed.

    A form that the value does not have is None. In a notebook a result shows itself. The code
    inside chooses all of it, so treat it like any output of that code.
    """

    text: Optional[str] = None
    """As text, without one pair of surrounding quotes."""
    html: Optional[str] = field(default=None, repr=False)
    """As HTML."""
    markdown: Optional[str] = field(default=None, repr=False)
    """As Markdown."""
    svg: Optional[str] = field(default=None, repr=False)
    """As an SVG picture."""
    png: Optional[str] = field(default=None, repr=False)
    """As a PNG picture, in base64."""
    jpeg: Optional[str] = field(default=None, repr=False)
    """As a JPEG picture, in base64."""
    pdf: Optional[str] = field(default=None, repr=False)
    """As a PDF document, in base64."""
    latex: Optional[str] = field(default=None, repr=False)
    """As LaTeX."""
    json: Any = field(default=None, repr=False)
    """As JSON."""
    javascript: Optional[str] = field(default=None, repr=False)
    """As JavaScript."""
    data: Optional[dict[str, list[Any]]] = field(default=None, repr=False)
    """A table: its columns by name, each a list."""
    chart: Optional[dict[str, Any]] = field(default=None, repr=False)
    """The type, title, axes and values of a chart."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All other MIME types by name."""
    is_main_result: bool = False
    """Whether it is the value of the last expression."""

    def formats(self) -> list[str]:
        """The names of the forms that it has."""
        own = [name for name in _MIME if getattr(self, name) is not None]
        return own + list(self.extra)

    def png_bytes(self) -> bytes:
        """The PNG picture."""
        if self.png is None:
            message = "the result is not a PNG picture"
            raise errors.InvalidError(message, f"it has: {', '.join(self.formats())}")
        return base64.b64decode(self.png)

    def mime_bundle(self) -> dict[str, Any]:
        """Its forms by MIME type."""
        bundle = {mime: getattr(self, name) for name, mime in _MIME.items()}
        bundle.update(self.extra)
        return {mime: value for mime, value in bundle.items() if value is not None}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.mime_bundle()

    def __str__(self) -> str:
        return self.text if self.text is not None else f"<{', '.join(self.formats())}>"


@dataclass(frozen=True)
class CodeError:
    """An exception that ended a call."""

    name: str
    """The name of its class; ``UnexpectedEndOfExecution`` if the interpreter has ended."""
    value: str
    """Its text."""
    traceback: str = field(repr=False)
    """The traceback, as Python prints it."""


@dataclass(frozen=True)
class CodeExecution(Execution):
    """A call of a context that has ended. In a notebook it shows all that it wrote and showed."""

    results: tuple[Result, ...] = ()
    """The values that it showed, in order."""
    error: Optional[CodeError] = None
    """The exception that ended it."""
    execution_count: Optional[int] = None
    """How many calls the interpreter has executed; None if it has ended."""
    context: str = ""
    """The name of the context."""
    is_alive: bool = True
    """Whether the interpreter still runs, with its variables."""
    dropped_results: int = 0
    """How many values were dropped because they were too large."""

    @property
    def result(self) -> Optional[Result]:
        """The value of the last expression."""
        return next((result for result in self.results if result.is_main_result), None)

    @property
    def text(self) -> Optional[str]:
        """The value of the last expression as text."""
        return self.result.text if self.result is not None else None

    def check(self) -> CodeExecution:
        """Returns itself, or raises ExitError if an exception ended the call."""
        if self.error is None and self.ok:
            return self
        shown = self.error or CodeError(self.outcome, "", "")
        message = f"the code raised {shown.name}: {shown.value[:400]}"
        raise errors.ExitError(message, "see execution.error.traceback", self)

    def _ipython_display_(self) -> None:
        # The notebook has it; this package does not need it.
        display: Any = importlib.import_module("IPython.display").display
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for result in self.results:
            display(result)
        if self.error is not None:
            sys.stderr.write(self.error.traceback or f"{self.error.name}: {self.error.value}\n")


def of_view(view: Mapping[str, Any]) -> Result:
    """A result of the extension module."""
    known = {one.name for one in fields(Result)}
    return Result(**{name: value for name, value in view.items() if name in known})


def finish(
    report: tuple[str, bytes, bytes], check: bool
) -> tuple[CodeExecution, Optional[Exception]]:
    """The execution of a report, and the exception that the caller raises for it."""
    plain, problem = _core.finish(report, False)
    view = json.loads(report[0])
    error = view.get("error")
    execution = CodeExecution(
        **{one.name: getattr(plain, one.name) for one in fields(Execution)},
        results=tuple(of_view(one) for one in view.get("results", ())),
        error=None if error is None else CodeError(**error),
        execution_count=view.get("execution_count"),
        context=view.get("context", ""),
        is_alive=view.get("is_alive", True),
        dropped_results=view.get("dropped_results", 0),
    )
    if problem is not None:
        problem = errors.of_execution(execution)
    elif check:
        try:
            execution.check()
        except errors.ExitError as failed:
            problem = failed
    return execution, problem

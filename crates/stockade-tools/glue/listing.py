# The tools of this sandbox as Python functions, written by Stockade.
#
# Python reads this file whenever it starts, so it imports nothing, and what it says about tools is
# plain texts: everything else is in `stockade_tools`, which the first call brings in.

__name__ = "stockade_tools"


class ToolError(Exception):
    """A call to a tool has no result; `code` says in one word why."""

    def __init__(self, message="", code="failed"):
        super().__init__(message)
        self.code = code


class ToolDenied(ToolError):
    """The policy of this sandbox refuses the call."""


def call_tool(name, /, *args, **kwargs):
    """Calls the tool of this name, and returns its result.

    Arguments without a name are taken in the order in which the tool lists them.
    Raises ToolDenied where the policy refuses, and ToolError where the tool fails.
    """
    return _call(name, args, kwargs)


def _call(*parts):
    global _call
    from stockade_tools import _call

    return _call(*parts)


class _Shape:
    """Stands behind a function for whoever wants to know its parameters, as help() does."""

    def __init__(self, tool):
        self.tool = tool

    @property
    def __signature__(self):
        from stockade_tools import _signature

        return _signature(self.tool)


def _function(tool, name, document):
    def function(*args, **kwargs):
        return _call(tool, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = document
    function.__wrapped__ = _Shape(tool)
    return function


# Of each tool its name, its name in Python if it has one, its parameters as JSON (their names, the
# required ones, whether others may be given), and what help() says.
_listed = (

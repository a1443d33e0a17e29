# The tools of this sandbox as Python functions, written by Stockade.
#
# Python reads this file whenever it starts, so nothing is imported here: what a call needs is in
# `stockade_tools`, which the first call brings in.

__name__ = "stockade_tools"


class ToolError(Exception):
    """A call to a tool has no result; `code` says in one word why."""

    def __init__(self, message="", code="failed"):
        super().__init__(message)
        self.code = code


class ToolDenied(ToolError):
    """The policy of this sandbox refuses the call."""


class _stockade_Unsaid:
    """What stands for an argument that a call does not give."""

    def __repr__(self):
        return "unsaid"


_stockade_unsaid = _stockade_Unsaid()


def _stockade_call(*parts):
    global _stockade_call
    from stockade_tools import _call

    _stockade_call = _call
    return _call(*parts)


def call_tool(name, /, *args, **kwargs):
    """Calls the tool of this name, and returns its result.

    Arguments without a name are taken in the order in which the tool lists them.
    Raises ToolDenied where the policy refuses, and ToolError where the tool fails.
    """
    tool = _stockade_tools.get(name) if isinstance(name, str) else None
    if tool is None:
        return _stockade_call(name, kwargs, None, (), args)
    return tool(*args, **kwargs)


_stockade_tools = {}
_stockade_offered = {"call_tool": call_tool, "ToolError": ToolError, "ToolDenied": ToolDenied}

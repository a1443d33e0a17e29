"""Calls the tools of this sandbox.

Programs need no import: `call_tool`, `ToolError`, `ToolDenied` and a function for each tool whose
name is valid in Python are builtins. All of them can be imported from here too, and so can the
tools whose names would shadow something in Python. In `asyncio` programs, `acall_tool` calls a
tool in a thread.
"""

import json
import os
import threading

try:
    # Behind a wall without sockets, a function of the host takes a request and returns the answer.
    from _stockade_host import ask as _ask_host
except ImportError:
    import socket

    _ask_host = None

import _stockade_listing as _listing
from _stockade_listing import ToolDenied, ToolError, call_tool

__all__ = ["ToolDenied", "ToolError", "acall_tool", "call_tool", "list_tools"]

_SOCKET = "/run/stockade/tools.sock"
_CONTAINERS = (dict, list, tuple)

# How many characters of a call's arguments a message repeats.
_MOST_SHOWN = 60

_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_read = json.JSONDecoder().decode

# Each thread keeps one idle connection. A call inside another one, for example from a signal
# handler, finds no idle connection and opens its own.
_kept = threading.local()


async def acall_tool(name, /, *args, **kwargs):
    """Calls a tool as call_tool does, in a thread of the running loop's executor.

    The call continues when the awaiting task is cancelled.
    """
    from asyncio import get_running_loop
    from functools import partial

    call = partial(call_tool, name, *args, **kwargs)
    return await get_running_loop().run_in_executor(None, call)


def list_tools():
    """The tools that can be called: name, description, input_schema, maybe output_schema."""
    return _ask(b',"list":true}\n', "the list of tools")


def __getattr__(name):
    if name in _listing._offered:
        return _listing._offered[name]
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))


def __dir__():
    return sorted(set(globals()) | set(_listing._offered))


class _Connection:
    """A connection to the tool broker on the host, used for one call at a time."""

    reader = socket = None

    def __init__(self):
        self.process = os.getpid()
        self.asked = 0
        if _ask_host is not None:
            return
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The program may have set another default timeout. The tool broker ends calls that take too
        # long.
        self.socket.settimeout(None)
        self.socket.connect(os.environ.get("STOCKADE_TOOLS_SOCKET") or _SOCKET)
        self.reader = self.socket.makefile("rb", 1 << 16)

    def ask(self, request):
        """Adds an id to a request and sends it; returns the line of the answer."""
        self.asked += 1
        request = b'{"id":%d' % self.asked + request
        if _ask_host is not None:
            return _ask_host(request) + b"\n"
        try:
            self.socket.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            # The tool broker may have sent a reason before it closed.
            pass
        return self.reader.readline()

    def close(self):
        for end in (self.reader, self.socket):
            if end is not None:
                end.close()

    def __del__(self):
        try:
            self.close()
        except (AttributeError, OSError):
            # It was never opened, or the program has closed it.
            pass


def _after_fork():
    # The connection belongs to the parent. Close it here before its number is reused.
    _kept.__dict__.pop("connection", None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Tool:
    """The parameters of a tool, from the listing."""

    def __init__(self, name, shape):
        self.name = name
        self.parameters, self.required, self.takes_others = _read(shape)
        self.known = frozenset(self.parameters)
        self.spelled = _spelled(self.parameters)
        self.meant = {own: name for own, name in zip(self.spelled, self.parameters) if own != name}

    def arguments(self, unnamed, named):
        """Returns the arguments by their names in the schema. Owns `named`."""
        if len(unnamed) > len(self.parameters):
            message = "{}() takes at most {} unnamed arguments, and {} were given"
            raise self.mistake(message, len(self.parameters), len(unnamed))
        arguments = dict(zip(self.parameters, unnamed))
        for name, value in named.items():
            if name not in self.known:
                name = self.meant.get(name, name)
                if name not in self.known and not self.takes_others:
                    raise self.mistake("{}() got an unexpected argument {!r}", name)
            if name in arguments:
                raise self.mistake("{}() got multiple values for argument {!r}", name)
            arguments[name] = value
        for name in self.required:
            if name not in arguments:
                raise self.mistake("{}() missing a required argument: {!r}", name)
        return arguments

    def mistake(self, message, *parts):
        return TypeError(message.format(self.name, *parts))


def _spelled(names):
    """Unique valid Python names for the parameters: `max-results` becomes `max_results`."""
    from keyword import iskeyword

    def is_plain(name):
        return name.isidentifier() and not iskeyword(name)

    taken = {name for name in names if is_plain(name)}
    found = []
    for name in names:
        if not is_plain(name):
            first = "".join(c if ("_" + c).isidentifier() else "_" for c in name)
            first = first + "_" if iskeyword(first) else first
            first = name = first if is_plain(first) else "_" + first
            number = 1
            while name in taken:
                number += 1
                name = "{}_{}".format(first, number)
            taken.add(name)
        found.append(name)
    return found


class _Optional:
    """The default that help() shows for optional parameters."""

    def __repr__(self):
        return "optional"


def _signature(name):
    from inspect import Parameter, Signature

    tool, optional, is_optional = _tools[name], _Optional(), False
    parameters = []
    for own, meant in zip(tool.spelled, tool.parameters):
        # Python has no parameter without a default after one with a default.
        is_optional = is_optional or meant not in tool.required
        default = optional if is_optional else Parameter.empty
        parameters.append(Parameter(own, Parameter.POSITIONAL_OR_KEYWORD, default=default))
    if tool.takes_others:
        others = "others"
        while others in tool.spelled:
            others += "_"
        parameters.append(Parameter(others, Parameter.VAR_KEYWORD))
    return Signature(parameters)


class _Tools(dict):
    """The tools by name, each parsed on first use; None if it is not listed."""

    def __missing__(self, name):
        for tool, _, shape, _ in _listing._listed:
            if tool == name:
                return self.setdefault(name, _Tool(name, shape))
        return None


_tools = _Tools()


def _call(name, unnamed, named):
    """Implements every function of the listing. Owns `named`."""
    if not isinstance(name, str):
        raise TypeError("the name of a tool is a str, not {}".format(type(name).__name__))
    tool = _tools[name]
    if tool is not None:
        return _ask(_request(name, tool.arguments(unnamed, named)), name)
    # The tool broker refuses unlisted tools and gives the reason. It needs no arguments for that.
    _ask(_request(name, named), name)
    raise TypeError("{}() is not listed, yet the call succeeded".format(name))


def _request(tool, arguments):
    try:
        text = ',"call":' + _write(tool) + ',"arguments":' + _write(arguments) + "}\n"
        if _has_odd_key(arguments):
            raise TypeError("a key that is not a str")
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(tool, arguments, error) from None


def _ask(request, what):
    mine = _kept.__dict__
    connection = mine.pop("connection", None)
    if connection is None or connection.process != os.getpid():
        connection = _connect()
    try:
        line = connection.ask(request)
        answer = _read(line.decode("utf-8")) if line.endswith(b"\n") else None
    except (OSError, ValueError) as error:
        connection.close()
        raise _lost(what, error) from error
    except BaseException:
        # Interrupted: a late answer would be taken for that of the next call.
        connection.close()
        raise
    fields = answer if isinstance(answer, dict) else {}
    if fields.get("id") == connection.asked:
        mine["connection"] = connection
    else:
        connection.close()
    if isinstance(fields.get("error"), dict):
        raise _failure(fields["error"])
    if fields.get("id") != connection.asked or "result" not in fields:
        raise _lost(what, "the host closed it" if answer is None else "the answer is not valid")
    return fields["result"]


def _connect():
    try:
        return _Connection()
    except OSError as error:
        message = "no tool can be called: the socket of the tools cannot be reached ({})"
        raise ToolError(message.format(error.strerror or error), "broken") from error


def _failure(error):
    code, message = str(error.get("code")), str(error.get("message"))
    return (ToolDenied if code in ("denied", "limit") else ToolError)(message, code)


def _lost(what, why):
    why = getattr(why, "strerror", None) or why
    message = "the connection to the host was lost before {} was answered: {}"
    return ToolError(message.format(what, why), "broken")


def _has_odd_key(arguments):
    """Whether a mapping has a key that json would convert to a string."""
    left = [arguments]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    return True
            value = value.values()
        left.extend([inner for inner in value if isinstance(inner, _CONTAINERS)])
    return False


def _refusal(tool, arguments, error):
    """Why the arguments are not JSON, and at which path."""
    left = [(name, value, (id(arguments),)) for name, value in reversed(list(arguments.items()))]
    while left:
        place, value, within = left.pop()
        found = _oddity(value, within)
        if found is not None:
            kind, what = found
            return kind("{}(): the argument {} {}".format(tool, _short(place), what))
        if len(place) > _MOST_SHOWN * 10:
            break
        if isinstance(value, _CONTAINERS):
            inner = within + (id(value),)
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            left.extend(
                [("{}[{!r}]".format(place, key), item, inner) for key, item in pairs][::-1]
            )
    if isinstance(error, RecursionError):
        return ValueError("{}(): the arguments are nested too deep".format(tool))
    kind = ValueError if isinstance(error, ValueError) else TypeError
    return kind("{}(): the arguments are not JSON: {}".format(tool, error))


def _oddity(value, within):
    """Why a value itself, without its contents, is not JSON; None if it is."""
    if id(value) in within:
        return ValueError, "contains itself"
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                shown = _short(repr(key))
                return TypeError, "has the key {}, and JSON has str keys only".format(shown)
            if _has_surrogate(key):
                return ValueError, "has a key that is not valid text: it has a lone surrogate"
    elif isinstance(value, str):
        if _has_surrogate(value):
            return ValueError, "is not valid text: it has a lone surrogate"
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return ValueError, "is {!r}, and JSON has no such number".format(value)
    elif value is not None and not isinstance(value, (bool, int, list, tuple)):
        kind = type(value).__name__
        hint = {
            "set": "pass a list",
            "frozenset": "pass a list",
            "bytes": "pass a str, such as base64.b64encode(…).decode()",
            "bytearray": "pass a str, such as base64.b64encode(…).decode()",
        }.get(kind, "pass a str, a number, a bool, None, a list or a dict")
        return TypeError, "is of type {}, which is not JSON; {}".format(kind, hint)
    return None


def _has_surrogate(text):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _short(text):
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"

"""Calls the tools of this sandbox.

Programs need no import: `call_tool`, `ToolError`, `ToolDenied` and a function for each tool whose
name Python can write are there already. All of them can be imported from here too, and so can the
tools that are called like something Python has itself. In `asyncio` programs, `acall_tool` calls a
tool in a thread.
"""

import json
import os
import socket
import threading

import _stockade_listing as _listing
from _stockade_listing import ToolDenied, ToolError, call_tool

__all__ = ["ToolDenied", "ToolError", "acall_tool", "call_tool", "list_tools"]

_SOCKET = "/run/stockade/tools.sock"
_UNSAID = _listing._stockade_unsaid
_CONTAINERS = (dict, list, tuple)

# How much of what a call was given a message repeats.
_MOST_SHOWN = 60

_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_read = json.JSONDecoder().decode

# Each thread keeps a connection while it makes no call. A call that is made in the middle of
# another, as a signal handler may, finds none and makes its own.
_kept = threading.local()


async def acall_tool(name, /, *args, **kwargs):
    """Calls a tool as call_tool does, in a thread of the running loop's executor.

    The call goes on when whoever awaits it is cancelled.
    """
    from asyncio import get_running_loop
    from functools import partial

    call = partial(call_tool, name, *args, **kwargs)
    return await get_running_loop().run_in_executor(None, call)


def list_tools():
    """The tools that can be called: name, description, input_schema, maybe output_schema."""
    return _ask(b',"list":true}\n', "the list of tools")


def __getattr__(name):
    if name in _listing._stockade_offered:
        return _listing._stockade_offered[name]
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))


def __dir__():
    return sorted(set(globals()) | set(_listing._stockade_offered))


class _Connection:
    """A connection to the desk on the host, used for one call after another."""

    reader = None

    def __init__(self):
        self.process = os.getpid()
        self.asked = 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # A program may have set another default. The desk ends calls that take too long.
        self.socket.settimeout(None)
        self.socket.connect(os.environ.get("STOCKADE_TOOLS_SOCKET") or _SOCKET)
        self.reader = self.socket.makefile("rb", 1 << 16)

    def ask(self, request):
        """Sends a request that still lacks its id; returns the line of the answer."""
        self.asked += 1
        try:
            self.socket.sendall(b'{"id":%d' % self.asked + request)
        except (BrokenPipeError, ConnectionResetError):
            # The desk may have said why before it closed.
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
    # The connection belongs to the parent. It is closed here before its number can mean
    # anything else.
    _kept.__dict__.pop("connection", None)


os.register_at_fork(after_in_child=_after_fork)


def _call(tool, arguments, more=None, needed=(), unnamed=()):
    """What every function of the listing does. Owns `arguments`.

    `more` are arguments by their names in the schema, `needed` are those that the signature does
    not ask for by itself, and `unnamed` are those of a tool that is not in the listing.
    """
    if not isinstance(tool, str):
        raise TypeError("the name of a tool is a str, not {}".format(type(tool).__name__))
    for name in [name for name, value in arguments.items() if value is _UNSAID]:
        del arguments[name]
    for name, value in more.items() if more else ():
        if name in arguments:
            raise TypeError("{}() got multiple values for argument {!r}".format(tool, name))
        arguments[name] = value
    for name in needed:
        if name not in arguments:
            raise TypeError("{}() missing a required argument: {!r}".format(tool, name))
    result = _ask(_request(tool, arguments), tool)
    if unnamed:
        # Not reached: the desk answers no tool that the listing lacks.
        raise TypeError("{}() takes arguments by name only".format(tool))
    return result


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
        # Interrupted: an answer that comes now would be taken for that of the next call.
        connection.close()
        raise
    told = answer if isinstance(answer, dict) else {}
    if told.get("id") == connection.asked:
        mine["connection"] = connection
    else:
        connection.close()
    if isinstance(told.get("error"), dict):
        raise _failure(told["error"])
    if told.get("id") != connection.asked or "result" not in told:
        raise _lost(what, "the host closed it" if answer is None else "the answer is no answer")
    return told["result"]


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
    """Whether a mapping has a key that json would turn into a text."""
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
    """Why arguments are no JSON, with the place where they are not."""
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
    return kind("{}(): the arguments are no JSON: {}".format(tool, error))


def _oddity(value, within):
    """What about a value is no JSON, whatever is in it; None where there is nothing."""
    if id(value) in within:
        return ValueError, "contains itself"
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                shown = _short(repr(key))
                return TypeError, "has the key {}, and JSON has str keys only".format(shown)
            if _has_surrogate(key):
                return ValueError, "has a key that is no text: a lone surrogate is in it"
    elif isinstance(value, str):
        if _has_surrogate(value):
            return ValueError, "is no text: a lone surrogate is in it"
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
        return TypeError, "is of type {}, which is no JSON; {}".format(kind, hint)
    return None


def _has_surrogate(text):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _short(text):
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"

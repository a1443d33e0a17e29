"""JSON schemas from type hints and docstrings."""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Literal, Optional, Union

from . import errors

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}

# JSON has no bytes: they are the text that this encoding makes of them.
_BYTES = {"type": "string", "contentEncoding": "base64"}

# The sections of docstrings in the style of NumPy; a line of dashes follows their names.
_NUMPY = re.compile(
    r"(Parameters|Other Parameters|Returns|Yields|Receives|Raises|Warns|Warnings|See Also|Notes"
    r"|References|Examples|Attributes|Methods)\s*$"
)

# `int | str`, from Python 3.10 on.
_UNIONS: tuple[Any, ...] = (Union, getattr(types, "UnionType", Union))


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a function takes and returns."""

    description: str
    """The docstring without its list of arguments."""
    input: dict[str, Any]
    """The JSON schema of the arguments."""
    output: Optional[dict[str, Any]]
    """The JSON schema of the result; None without a hint."""
    hints: Mapping[str, Any]

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments from JSON, as the hints ask for them."""
        return {name: _value(self.hints.get(name, Any), it) for name, it in arguments.items()}


def of_function(name: str, function: Callable[..., Any]) -> Shape:
    """The shape of a function, from its hints and its docstring. What a partial function has bound
    already is no argument."""
    inner: Any = function
    bound: set[str] = set()
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    try:
        signature = inspect.signature(function)
        target = inner if inspect.isroutine(inner) else getattr(inner, "__call__")
        hints = typing.get_type_hints(target, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        message = f"cannot read the arguments of the tool {name!r}: {error}"
        raise errors.InvalidError(message, "pass a Python function with type hints") from error
    description, described = _docstring(inspect.getdoc(inner) or "")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in signature.parameters.values():
        is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_open or parameter.name in bound:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            message = f"the tool {name!r} takes {parameter.name!r} only by position"
            raise errors.InvalidError(message, "remove the slash: tools are called by name")
        it = _schema(hints.get(parameter.name, Any), name)
        if parameter.name in described:
            it = {**it, "description": described[parameter.name]}
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        properties[parameter.name] = it
    taken: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if bound:
        # A call must not replace what is bound.
        taken["additionalProperties"] = False
    returned = hints.get("return", Any)
    output = None if returned is Any else _schema(returned, name)
    return Shape(description, taken, output, hints)


def plain(value: Any) -> Any:
    """A result as plain data, for ``json.dumps``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _schema(hint: Any, tool: str) -> dict[str, Any]:
    """The JSON schema of a type hint."""
    if hint is Any or hint is inspect.Parameter.empty or hint is object:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is bytes:
        return dict(_BYTES)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(hint, "__metadata__"):
        texts = [it for it in hint.__metadata__ if isinstance(it, str)]
        described = {"description": texts[0]} if texts else {}
        return {**_schema(hint.__origin__, tool), **described}
    if origin in _UNIONS:
        return {"anyOf": [_schema(it, tool) for it in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return {"enum": [it.value for it in hint]}
    if dataclasses.is_dataclass(hint):
        fields = typing.get_type_hints(hint, include_extras=True)
        needed = [it.name for it in dataclasses.fields(hint) if _is_needed(it)]
        return _object({it.name: fields[it.name] for it in dataclasses.fields(hint)}, needed, tool)
    if typing.is_typeddict(hint) if hasattr(typing, "is_typeddict") else False:
        needed = sorted(hint.__required_keys__)
        return _object(typing.get_type_hints(hint, include_extras=True), needed, tool)
    kind = origin or hint
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        items = [_schema(it, tool) for it in inner]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if kind in (list, tuple, set, frozenset) or _is(kind, Sequence):
        return {"type": "array", "items": _schema(inner[0], tool) if inner else {}}
    if kind is dict or _is(kind, Mapping):
        of = _schema(inner[1], tool) if len(inner) == 2 else {}
        return {"type": "object", "additionalProperties": of or True}
    message = f"the tool {tool!r} has a hint that JSON cannot express: {hint!r}"
    raise errors.InvalidError(message, "use plain types, lists, dicts or dataclasses")


def _object(fields: Mapping[str, Any], required: list[str], tool: str) -> dict[str, Any]:
    properties = {name: _schema(hint, tool) for name, hint in fields.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _is(kind: Any, base: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, base) and kind is not str


def _value(hint: Any, value: Any) -> Any:
    """A JSON value as its hint asks for it; unchanged if they do not fit."""
    if hasattr(hint, "__metadata__"):
        return _value(hint.__origin__, value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        fitting = (it for it in inner if _is_converted(it))
        return _value(next(fitting, Any), value) if value is not None else None
    if _is_enum(hint):
        return hint(value)
    if hint is bytes and isinstance(value, str):
        return base64.b64decode(value, validate=True)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        fields = typing.get_type_hints(hint, include_extras=True)
        return hint(**{name: _value(fields.get(name, Any), it) for name, it in value.items()})
    if isinstance(value, list):
        items = [_value(inner[0], it) if inner else it for it in value]
        kind = origin or hint
        return kind(items) if kind in (tuple, set, frozenset) else items
    if isinstance(value, dict) and len(inner) == 2:
        return {name: _value(inner[1], it) for name, it in value.items()}
    return value


def _is_converted(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or _is_enum(hint) or hint is bytes


def _is_enum(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, enum.Enum)


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and that of each argument."""
    lines = text.splitlines()
    for number, (line, next_line) in enumerate(zip(lines, lines[1:])):
        if _NUMPY.match(line) and re.match(r"-{3,}\s*$", next_line):
            return "\n".join(lines[:number]).strip(), _numpy_arguments(lines[number:])
    return _listed_arguments(lines)


def _numpy_arguments(lines: list[str]) -> dict[str, str]:
    """The description of each argument from the sections of a docstring in the style of NumPy."""
    arguments: dict[str, str] = {}
    section = ""
    names: list[str] = []
    for line in lines:
        header = _NUMPY.match(line)
        if header:
            section, names = header[1], []
        elif not section.endswith("Parameters") or re.match(r"-{3,}\s*$", line):
            continue
        elif line.strip() and not line[0].isspace():
            # `first, second : float, optional`
            names = re.findall(r"\w+", line.partition(":")[0])
        for name in names if line[:1].isspace() else ():
            arguments[name] = f"{arguments.get(name, '')} {line.strip()}".strip()
    return arguments


def _listed_arguments(lines: list[str]) -> tuple[str, dict[str, str]]:
    """The description, and that of each argument from a section `Args:` or from `:param`."""
    arguments: dict[str, str] = {}
    kept: list[str] = []
    section = False
    for line in lines:
        param = re.match(r"\s*:param\s+(?:[^:]*\s)?(\w+):\s*(.*)", line)
        listed = re.match(r"\s+(\w+)(?:\s*\([^)]*\))?:\s*(.*)", line) if section else None
        if re.match(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples):\s*$", line):
            section = True
        elif param:
            arguments[param[1]] = param[2].strip()
        elif listed:
            arguments[listed[1]] = listed[2].strip()
        elif not section and not re.match(r"\s*:(return|returns|raises)\b", line):
            kept.append(line)
        elif line.strip() and not line.startswith(" "):
            section = False
            kept.append(line)
    return "\n".join(kept).strip(), arguments

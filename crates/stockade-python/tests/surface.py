"""Prints the public surface of ``agent_sandbox``, of whichever package provides it, as JSON."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import sys
import warnings
from typing import Any

MODULES = [
    "agent_sandbox",
    "agent_sandbox.sandbox_provider",
    "agent_sandbox.isolation_runtime",
    "agent_sandbox.code_scanner",
    "agent_sandbox._hardening",
    "agent_sandbox.docker_provider",
    "agent_sandbox.docker_provider.provider",
    "agent_sandbox.docker_provider.state",
    "agent_sandbox.docker_sandbox_provider",
    "agent_sandbox.hyperlight_provider",
    "agent_sandbox.hyperlight_provider.config",
    "agent_sandbox.hyperlight_provider.provider",
    "agent_sandbox.aca_sandbox_provider",
    "agent_sandbox.mxc_sandbox_provider",
    "agent_sandbox.nono_sandbox_provider",
]


def value(thing: Any) -> str:
    """A default as text; an enum member by its value."""
    return repr(thing.value) if isinstance(thing, enum.Enum) else repr(thing)


def signature(function: Any) -> list[list[str]]:
    """The parameters of a function: name, kind and default."""
    found = []
    for it in inspect.signature(function).parameters.values():
        default = "" if it.default is it.empty else value(it.default)
        found.append([it.name, it.kind.name, default])
    return found


def field(it: Any) -> list[str]:
    """A field of a dataclass: its name and its default."""
    if it.default_factory is not dataclasses.MISSING:
        made = it.default_factory()
        return [it.name, "now" if it.name == "created_at" else value(made)]
    return [it.name, "" if it.default is dataclasses.MISSING else value(it.default)]


def class_of(kind: Any) -> dict[str, Any]:
    """A class: its bases, members and fields."""
    told: dict[str, Any] = {"bases": [it.__name__ for it in kind.__mro__]}
    if issubclass(kind, enum.Enum):
        return {**told, "members": {it.name: it.value for it in kind}}
    if dataclasses.is_dataclass(kind):
        told["fields"] = [field(it) for it in dataclasses.fields(kind)]
        told["frozen"] = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    told["abstract"] = sorted(getattr(kind, "__abstractmethods__", ()))
    methods: dict[str, Any] = {}
    for name, member in inspect.getmembers_static(kind):  # type: ignore[attr-defined]
        if name.startswith("_") and name not in ("__init__", "__enter__", "__exit__"):
            continue
        if isinstance(member, property):
            methods[name] = "property"
        elif isinstance(member, (classmethod, staticmethod)):
            methods[name] = [type(member).__name__, signature(member.__func__)]
        elif inspect.isfunction(member):
            kind_of = "async" if inspect.iscoroutinefunction(member) else "method"
            methods[name] = [kind_of, signature(member)]
        elif isinstance(member, (str, int)):
            methods[name] = value(member)
    return {**told, "methods": methods}


def module_of(name: str) -> dict[str, Any]:
    """The names that a module defines or offers."""
    module = importlib.import_module(name)
    told: dict[str, Any] = {"__all__": sorted(getattr(module, "__all__", []))}
    for it, thing in vars(module).items():
        offered = it in told["__all__"] or getattr(thing, "__module__", None) == name
        if it.startswith("_") or not (offered or isinstance(thing, frozenset)):
            continue
        if inspect.isclass(thing):
            told[it] = class_of(thing)
        elif inspect.isfunction(thing):
            told[it] = ["function", signature(thing)]
        elif isinstance(thing, frozenset):
            told[it] = sorted(thing)
    return told


def main() -> None:
    warnings.simplefilter("ignore")
    found = {}
    for name in MODULES:
        try:
            found[name] = module_of(name)
        except ModuleNotFoundError:
            # An older version does not have it.
            found[name] = None
    json.dump(found, sys.stdout)


main()

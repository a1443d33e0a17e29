"""Policy documents of the toolkit, for programs without it. `agent_os.policies` of the toolkit
itself is used where it is installed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Optional, TypeVar, Union

from . import _policies

PathLike = Union[str, "os.PathLike[str]"]
_Part = TypeVar("_Part")


class PolicyOperator(str, Enum):
    """How a rule compares."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    LT = "lt"
    GTE = "gte"
    LTE = "lte"
    IN = "in"
    NOT_IN = "not_in"
    MATCHES = "matches"
    CONTAINS = "contains"


class PolicyAction(str, Enum):
    """What a rule does."""

    ALLOW = "allow"
    DENY = "deny"
    AUDIT = "audit"
    BLOCK = "block"


class DynamicConditionType(str, Enum):
    """When a rule applies."""

    TIME_WINDOW = "time_window"
    DAY_OF_WEEK = "day_of_week"
    TOKEN_COUNT_PER_WINDOW = "token_count_per_window"
    COST_PER_WINDOW = "cost_per_window"


@dataclass
class DynamicCondition:
    """When a rule applies."""

    type: DynamicConditionType
    timezone: Optional[str] = None
    start_time: Optional[str] = None
    end_time: Optional[str] = None
    days_of_week: Optional[list[int]] = None
    window: Optional[str] = None
    limit: Optional[float] = None

    def __post_init__(self) -> None:
        self.type = DynamicConditionType(self.type)


@dataclass
class PolicyCondition:
    """What a rule compares."""

    field: str
    operator: PolicyOperator
    value: Any

    def __post_init__(self) -> None:
        self.operator = PolicyOperator(self.operator)


@dataclass
class PolicyRule:
    """A rule about code, commands or tools."""

    name: str
    condition: PolicyCondition
    action: PolicyAction
    priority: int = 0
    message: str = ""
    dynamic_condition: Optional[DynamicCondition] = None
    override: bool = False

    def __post_init__(self) -> None:
        self.condition = part(PolicyCondition, self.condition)
        self.action = PolicyAction(self.action)
        if self.dynamic_condition is not None:
            self.dynamic_condition = part(DynamicCondition, self.dynamic_condition)


@dataclass
class PolicyDefaults:
    """What applies where no rule matches, and the limits of a session."""

    action: PolicyAction = PolicyAction.DENY
    max_tokens: int = 4096
    max_tool_calls: int = 10
    confidence_threshold: float = 0.8
    max_cpu: Optional[float] = None
    max_memory_mb: Optional[int] = None
    timeout_seconds: Optional[int] = None
    network_default: str = "deny"

    def __post_init__(self) -> None:
        self.action = PolicyAction(self.action)
        if self.network_default not in ("allow", "deny"):
            raise ValueError("network_default must be 'allow' or 'deny'")


@dataclass
class SandboxMounts:
    """Directories of the host that a session sees."""

    input_dir: Optional[str] = None
    output_dir: Optional[str] = None


@dataclass
class PolicyDocument:
    """A policy."""

    version: str = "1.0"
    name: str = "unnamed"
    description: str = ""
    rules: list[PolicyRule] = field(default_factory=list)
    defaults: PolicyDefaults = field(default_factory=PolicyDefaults)
    inherit: bool = True
    scope: Optional[str] = None
    network_allowlist: list[str] = field(default_factory=list)
    tool_allowlist: list[str] = field(default_factory=list)
    sandbox_mounts: SandboxMounts = field(default_factory=SandboxMounts)

    def __post_init__(self) -> None:
        self.version = str(self.version)
        self.rules = [part(PolicyRule, rule) for rule in self.rules]
        self.defaults = part(PolicyDefaults, self.defaults)
        self.sandbox_mounts = part(SandboxMounts, self.sandbox_mounts)

    @classmethod
    def model_validate(cls, data: Any) -> PolicyDocument:
        """A document from plain data."""
        return part(cls, data)

    def model_dump(self, *, mode: str = "python") -> dict[str, Any]:
        """The document as plain data."""
        named = {it.name: getattr(self, it.name) for it in fields(self)}
        dumped: dict[str, Any] = _policies.plain(named)
        return dumped

    @classmethod
    def from_yaml(cls, path: PathLike) -> PolicyDocument:
        """Reads a YAML file."""
        with open(path, "rb") as opened:
            return part(cls, _policies.parsed(os.fspath(path), opened.read()))

    @classmethod
    def from_json(cls, path: PathLike) -> PolicyDocument:
        """Reads a JSON file."""
        return part(cls, json.loads(Path(path).read_text(encoding="utf-8")))

    def to_yaml(self, path: PathLike) -> None:
        """Writes a YAML file."""
        Path(path).write_text("".join(_yaml(self.model_dump(), "")), encoding="utf-8")

    def to_json(self, path: PathLike) -> None:
        """Writes a JSON file."""
        Path(path).write_text(json.dumps(self.model_dump(), indent=2), encoding="utf-8")


def part(kind: type[_Part], value: Any) -> _Part:
    """A part of a document, from plain data or as it is. An unknown key is an error."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"{kind.__name__} must be a mapping, not {type(value).__name__}")
    known = [it.name for it in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(value) - set(known))
    if unknown:
        names = ", ".join(known)
        raise ValueError(f"{kind.__name__} has no {', '.join(unknown)}; it has {names}")
    try:
        return kind(**value)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} is incomplete: {error}") from error


def _yaml(value: dict[str, Any], indent: str) -> list[str]:
    """The lines of a mapping; its scalars and lists are JSON, which is YAML."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            lines += [f"{indent}{key}:\n", *_yaml(item, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(item)}\n")
    return lines

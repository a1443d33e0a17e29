"""Policies: what a sandbox allows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from . import _stockade, errors
from ._stockade import Failure

# The size of the largest policy text that is read; the parser refuses smaller ones too.
_MOST_BYTES = 4 << 20

Context = Mapping[str, Any]
"""Fields for the rules of a policy, in addition to those that Stockade sets."""

PolicyLike = Union["Policy", str, "os.PathLike[str]", Mapping[str, Any], None]
"""A policy, the path of its file, or its clauses; None is the preset ``default``."""


@dataclass(frozen=True)
class Verdict:
    """The answer to a question about a policy. True if the act is allowed."""

    allowed: bool
    """Whether the act is allowed."""
    verdict: str
    """``allow``, ``audit`` or ``deny``."""
    target: str
    """What was judged."""
    control: str
    """The control that decided."""
    why: str
    """Why."""
    decided_by: Any
    """The line or built-in rule that decided."""
    change: str
    """The change of the policy that would reverse the answer."""

    def __bool__(self) -> bool:
        return self.allowed


class Policy:
    """A checked policy. Make one with `load`, `parse`, `build` or `preset`."""

    def __init__(self, checked: _stockade.Policy, files: tuple[str, ...] = ()) -> None:
        self._checked = checked
        self._files = files

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Policy:
        """Reads a policy file."""
        file = Path(path).absolute()
        try:
            with open(file, "rb") as opened:
                text = opened.read(_MOST_BYTES)
        except OSError as error:
            message = f"cannot read the policy {file}: {error.strerror}"
            raise errors.PolicyError(message, "check its path and permissions") from error
        return cls(_parse(os.fspath(path), text, str(file.parent)), (str(file),))

    @classmethod
    def parse(
        cls, text: str, *, name: str = "policy", base: Union[str, os.PathLike[str], None] = None
    ) -> Policy:
        """Checks a policy text. Its relative paths start at `base`, or at the working directory."""
        return cls(_parse(name, text.encode(), os.path.abspath(base or os.getcwd())))

    @classmethod
    def build(cls, **clauses: Any) -> Policy:
        """Makes a policy from its clauses, such as ``network_allowlist=["example.com"]``."""
        clauses.setdefault("name", "built")
        return cls.parse(json.dumps(clauses), name=str(clauses["name"]))

    @classmethod
    def preset(cls, name: str = "default") -> Policy:
        """A policy to start from: ``strict``, ``default``, ``data``, ``web``, ``coding-agent``."""
        known = dict(_stockade.presets())
        if name not in known:
            message = f"no preset is called {name!r}"
            raise errors.InvalidError(message, f"pass one of: {', '.join(known)}")
        return cls.parse(known[name], name=name)

    @classmethod
    def combine(cls, *policies: Policy) -> Policy:
        """The policy that allows what every one of these allows."""
        if not policies:
            raise errors.InvalidError("no policy to combine", "pass at least one")
        try:
            combined = _stockade.Policy.combine([policy._checked for policy in policies])
        except Failure as failure:
            raise errors.of_failure(failure) from None
        return cls(combined, tuple(file for policy in policies for file in policy._files))

    def __and__(self, other: Policy) -> Policy:
        return Policy.combine(self, other)

    @property
    def name(self) -> str:
        """The policy's name."""
        return self._checked.name

    @property
    def tools(self) -> list[str]:
        """The names of the tools that it allows."""
        return self._checked.tools

    def to_dict(self) -> dict[str, Any]:
        """The whole policy with every default, as plain data."""
        value: dict[str, Any] = json.loads(self._checked.json())
        return value

    def __str__(self) -> str:
        return self._checked.yaml()

    def __repr__(self) -> str:
        return f"<Policy {self.name!r}>"

    def why(
        self,
        *,
        host: Optional[str] = None,
        address: Optional[str] = None,
        method: Optional[str] = None,
        url_path: Optional[str] = None,
        path: Optional[str] = None,
        write: bool = False,
        code: Optional[str] = None,
        language: str = "python",
        command: Optional[Sequence[str]] = None,
        tool: Optional[str] = None,
        arguments: Optional[Mapping[str, Any]] = None,
        context: Optional[Context] = None,
    ) -> Verdict:
        """Whether something is allowed, and why. Ask about one of `host`, `path`, `code`,
        `command` and `tool`.

        ``policy.why(host="example.com:443")`` asks about a connection, with `method` and
        `url_path` about a request, and with `address` about an address of the host. `context` has
        more fields for rules about code, commands and tools.
        """
        questions = [host, path, code, command, tool]
        if sum(question is not None for question in questions) != 1:
            message = "why answers one question at a time"
            raise errors.InvalidError(message, "pass one of host, path, code, command and tool")
        try:
            answer = self._ask(
                host,
                address,
                method,
                url_path,
                path,
                write,
                code,
                language,
                command,
                tool,
                arguments,
                fields(context),
            )
        except Failure as failure:
            raise errors.of_failure(failure) from None
        return Verdict(**json.loads(answer))

    def _ask(
        self,
        host: Optional[str],
        address: Optional[str],
        method: Optional[str],
        url_path: Optional[str],
        path: Optional[str],
        write: bool,
        code: Optional[str],
        language: str,
        command: Optional[Sequence[str]],
        tool: Optional[str],
        arguments: Optional[Mapping[str, Any]],
        context: str,
    ) -> str:
        if host is not None:
            is_request = method is not None or url_path is not None
            request = (method or "GET", url_path or "/") if is_request else None
            return self._checked.why_host(host, address, request)
        if path is not None:
            return self._checked.why_path(path, write)
        if code is not None:
            return self._checked.why_code(code, language, context)
        if command is not None:
            return self._checked.why_command(list(command), context)
        said = None if arguments is None else json.dumps(dict(arguments))
        return self._checked.why_tool(tool or "", said, context)


def fields(context: Optional[Context]) -> str:
    """The fields of a context as JSON."""
    try:
        return json.dumps(dict(context or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        message = f"the context cannot be JSON: {error}"
        raise errors.InvalidError(message, "pass a dictionary of plain values") from error


def policy_of(policy: PolicyLike, tools: Sequence[str]) -> Policy:
    """The policy of a sandbox. Without one, the preset `default` with the given tools applies."""
    if policy is None:
        return Policy.build(name="default", tool_allowlist=list(tools))
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        return Policy.build(**policy)
    return Policy.load(policy)


def _parse(name: str, text: bytes, base: str) -> _stockade.Policy:
    try:
        return _stockade.Policy.parse(name, text, base)
    except Failure as failure:
        raise errors.of_failure(failure) from None

"""Advice to honest agents: finds calls that start other programs, before the code runs.

The same act can be written in ways that no scanner finds. The wall holds what must hold.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

_EXEC = ["execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe"]
_SPAWN = [name.replace("exec", "spawn") for name in _EXEC]
_SUBPROCESS = ["Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run"]

# The functions that are found, by their module.
_FOUND: dict[str, frozenset[str]] = {
    "os": frozenset([*_EXEC, *_SPAWN, "popen", "system"]),
    "pty": frozenset(["spawn"]),
    "shutil": frozenset(["which"]),
    "subprocess": frozenset(_SUBPROCESS),
}

# How many places a message names.
_SHOWN = 3


@dataclass(frozen=True)
class CodeScanViolation:
    """A call that starts another program."""

    line: int
    """Its line, from one."""
    column: int
    """Its column, from zero."""
    pattern: str
    """The function, such as ``os.system``."""
    message: str
    """Why it is refused."""


class SandboxCodeViolation(PermissionError):
    """Code has calls that start other programs."""

    def __init__(self, violations: Sequence[CodeScanViolation]) -> None:
        self.violations = tuple(violations)
        """Each call, in the order of the code."""
        shown = [f"line {it.line}:{it.column + 1} {it.pattern}" for it in violations[:_SHOWN]]
        if len(violations) > _SHOWN:
            shown.append(f"+{len(violations) - _SHOWN} more")
        places = "; ".join(shown)
        super().__init__(f"Sandbox code denied: potential subprocess execution ({places})")


def scan_code_for_subprocesses(code: str) -> list[CodeScanViolation]:
    """The calls that start other programs. Code that is not Python has none."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    scanner = _Scanner()
    try:
        scanner.visit(tree)
    except RecursionError:
        pass
    return scanner.found


def enforce_no_subprocess_execution(code: str) -> None:
    """Raises SandboxCodeViolation if code has calls that start other programs."""
    found = scan_code_for_subprocesses(code)
    if found:
        raise SandboxCodeViolation(found)


class _Scanner(ast.NodeVisitor):
    """Follows imports and finds calls of the listed functions."""

    def __init__(self) -> None:
        self.found: list[CodeScanViolation] = []
        self._modules: dict[str, str] = {}
        self._functions: dict[str, str] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = alias.name.partition(".")[0]
            if module in _FOUND:
                self._modules[alias.asname or module] = module

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = (node.module or "").partition(".")[0]
        for alias in node.names:
            if module in _FOUND and alias.name == "*":
                self._add(node, f"{module}.*", "a wildcard import hides calls that start programs")
            elif alias.name in _FOUND.get(module, ()):
                self._functions[alias.asname or alias.name] = f"{module}.{alias.name}"

    def visit_Call(self, node: ast.Call) -> None:
        called: Optional[str] = None
        if isinstance(node.func, ast.Name):
            called = self._functions.get(node.func.id)
        elif isinstance(node.func, ast.Attribute):
            module = self._module(node.func.value)
            if node.func.attr in _FOUND.get(module, ()):
                called = f"{module}.{node.func.attr}"
        if called:
            self._add(node, called, f"{called} starts or looks for another program")
        self.generic_visit(node)

    def _module(self, node: ast.expr) -> str:
        """The module that an expression stands for; empty if it is not known."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id, node.id)
        if isinstance(node, ast.Call) and node.args and _is_import(node.func):
            named = node.args[0]
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                return named.value.partition(".")[0]
        return ""

    def _add(self, node: ast.AST, pattern: str, message: str) -> None:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        self.found.append(CodeScanViolation(line, column, pattern, message))


def _is_import(function: ast.expr) -> bool:
    """Whether a function is ``__import__`` or ``importlib.import_module``."""
    return ast.unparse(function) in ("__import__", "importlib.import_module")

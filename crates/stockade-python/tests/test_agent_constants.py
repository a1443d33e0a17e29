"""No public function of ``agent_sandbox`` answers with a constant: each one does what it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Union

import agent_sandbox

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

PACKAGE = Path(agent_sandbox.__file__).parent

EXPLAINED = {
    # The class of directories that need no copies; the copies are in its subclass.
    "_output.py": ["Output.take", "Output.remove"],
    # The base class runs nothing; the next test is about its subclasses.
    "sandbox_provider.py": ["SandboxProvider.cancel_execution"],
}

ACTS = (ast.Call, ast.Await, ast.Raise, ast.Yield, ast.YieldFrom)
"""What only code that does something has."""


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def is_literal(value: ast.expr) -> bool:
    """Whether an expression has the same value at every call."""
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def answers_constantly(function: Function) -> bool:
    """Whether a function does nothing, and every answer of it is a literal."""
    nodes = list(own_nodes(function))
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    acts = any(isinstance(node, (*ACTS, ast.Assign, ast.AugAssign, ast.With)) for node in nodes)
    return not acts and all(value is None or is_literal(value) for value in returned)


def is_abstract(function: Function) -> bool:
    return any(getattr(it, "id", "") == "abstractmethod" for it in function.decorator_list)


def constant_functions(source: str) -> list[str]:
    """The public functions and methods of a module that answer with a constant."""
    found = []
    for owner in ast.walk(ast.parse(source)):
        if not isinstance(owner, (ast.Module, ast.ClassDef)):
            continue
        prefix = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
        for part in owner.body:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                is_public = not part.name.startswith("_")
                if is_public and not is_abstract(part) and answers_constantly(part):
                    found.append(f"{prefix}{part.name}")
    return found


def test_no_public_function_returns_a_constant() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) >= 15
    found = {
        str(module.relative_to(PACKAGE)): constant_functions(module.read_text())
        for module in modules
    }
    assert {module: names for module, names in found.items() if names} == EXPLAINED


def test_every_provider_has_its_own_answers() -> None:
    providers = [
        thing
        for name in agent_sandbox.__all__
        if isinstance(thing := getattr(agent_sandbox, name), type)
        and issubclass(thing, agent_sandbox.SandboxProvider)
        and thing is not agent_sandbox.SandboxProvider
    ]
    assert len(providers) >= 5
    for provider in providers:
        for name in ("cancel_execution", "create_session", "execute_code", "is_available"):
            own, base = getattr(provider, name), getattr(agent_sandbox.SandboxProvider, name)
            assert own is not base, f"{provider.__name__}.{name} is that of the base class"


def test_search_finds_constants_and_nothing_else() -> None:
    source = '''
class Wall:
    def is_available(self):
        """Whether it is."""
        return True
    async def run(self, code):
        return {"ok": True, "text": ""}
    def stop(self):
        pass
    def branch(self, code):
        if code:
            return 1
        return 2
    @abstractmethod
    def planned(self): ...
    def real(self):
        return self.wall.ok
    def acts(self):
        self.close()
        return True
    def _own(self):
        return True
def free():
    return []
'''
    expected = ["free", "Wall.is_available", "Wall.run", "Wall.stop", "Wall.branch"]
    assert constant_functions(source) == expected

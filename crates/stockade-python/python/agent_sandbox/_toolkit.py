"""Makes ``agent_os.policies`` importable where the toolkit is not installed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Optional

# The names of `agent_os.policies`, and of the module that defines them.
_NAMES = ["DynamicCondition", "DynamicConditionType", "PolicyAction", "PolicyCondition"]
_NAMES += ["PolicyDefaults", "PolicyDocument", "PolicyOperator", "PolicyRule", "SandboxMounts"]

_MODULES = ("agent_os", "agent_os.policies", "agent_os.policies.schema")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the toolkit after every other finder has found none."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in _MODULES:
            return None
        parent = sys.modules.get(fullname.rpartition(".")[0])
        if parent is not None and not getattr(parent, "__stockade__", False):
            # The toolkit itself is imported, and does not have this module.
            return None
        is_package = fullname != _MODULES[-1]
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "Policy documents of the toolkit, as Stockade brings them."
        setattr(module, "__stockade__", True)
        if module.__name__ == _MODULES[0]:
            return
        from . import _documents

        module.__all__ = list(_NAMES)  # type: ignore[attr-defined]
        for name in _NAMES:
            setattr(module, name, getattr(_documents, name))


def offer_documents() -> None:
    """Makes ``agent_os.policies`` importable; a toolkit that is installed comes first."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        finder: Any = _Finder()
        sys.meta_path.append(finder)

"""Refuses ``import agent_sandbox`` where agt-sandbox is installed too.

Both packages have the same files, and those of the one that was installed last are imported. So the
check cannot be in them alone: ``stockade.pth`` adds a finder in front of all others at the start of
the interpreter, and `stockade` adds one where such files are not read.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import os
import shlex
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Optional
from urllib.parse import unquote, urlsplit

_REPLACED = "agt-sandbox"
_PACKAGE = "agent_sandbox"


class Finder(importlib.abc.MetaPathFinder):
    """Finds nothing; refuses the package if it is not this one."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname == _PACKAGE:
            refuse()
        return None


def guard() -> None:
    """Puts a finder in front of all others, once."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def refuse() -> None:
    """Raises ImportError, with the commands that help, if agt-sandbox is installed, or if its removal
    took files away that both packages have."""
    try:
        found = importlib.metadata.version(_REPLACED)
    except importlib.metadata.PackageNotFoundError:
        _refuse_incomplete()
        return
    raise ImportError(
        f"{_REPLACED} {found} is installed next to stockade, and both provide {_PACKAGE}; run "
        f"`{_pip()} uninstall -y {_REPLACED} && {_again()}`"
    )


def _refuse_incomplete() -> None:
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), _PACKAGE)
    if not os.path.exists(os.path.join(folder, "__init__.py")):
        raise ImportError(f"files of {_PACKAGE} are missing in {folder}; run `{_again()}`")


def _again() -> str:
    """The command that installs this package again; from where it came, if that is on this host."""
    try:
        own = importlib.metadata.distribution("stockade")
    except importlib.metadata.PackageNotFoundError:
        return f"{_pip()} install --force-reinstall --no-deps stockade"
    source = f"stockade=={own.version}"
    origin = urlsplit(json.loads(own.read_text("direct_url.json") or "{}").get("url", ""))
    place = unquote(origin.path)
    if origin.scheme == "file" and os.path.exists(place):
        source = shlex.quote(place)
    return f"{_pip()} install --force-reinstall --no-deps {source}"


def _pip() -> str:
    return f"{shlex.quote(sys.executable)} -m pip"

"""The surface of ``agent_sandbox`` against the package that it replaces, and the tests of policies
with the toolkit. They install both from the registry into environments of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

# Paths of other systems, which Stockade does not have.
ELSEWHERE = {"PROTECTED_PATHS_WINDOWS", "PROTECTED_PATHS_WINDOWS_ROOT_ONLY"}


def environment(place: Path, *packages: str) -> str:
    """The interpreter of a new virtual environment with packages."""
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    words = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(words, check=True, timeout=500)
    return python


def surface(python: str) -> Any:
    """The surface that an interpreter finds."""
    ended = subprocess.run(
        [python, str(HERE / "surface.py")], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def compare_signature(where: str, theirs: list[list[str]], ours: list[list[str]]) -> list[str]:
    """Their parameters are ours too, in the same order; more of ours are by name, with a default."""
    names = [it[0] for it in theirs]
    kept = [it for it in ours if it[0] in names]
    more = [it for it in ours if it[0] not in names]
    wrong = [] if kept == theirs else [f"{where}: {theirs} became {kept}"]
    wrong += [f"{where}: {it}" for it in more if it[1] != "KEYWORD_ONLY" or not it[2]]
    return wrong


def compare_class(where: str, theirs: Any, ours: Any) -> list[str]:
    wrong = []
    if not set(theirs["bases"]) <= set(ours["bases"]):
        wrong.append(f"{where}: the bases {theirs['bases']} became {ours['bases']}")
    for part in ("members", "abstract", "frozen"):
        if theirs.get(part) != ours.get(part):
            wrong.append(f"{where}: {part} {theirs.get(part)} became {ours.get(part)}")
    fields = theirs.get("fields", [])
    if ours.get("fields", [])[: len(fields)] != fields:
        wrong.append(f"{where}: the fields {fields} became {ours.get('fields')}")
    for name, method in theirs.get("methods", {}).items():
        own = ours["methods"].get(name)
        if isinstance(method, list) and isinstance(own, list) and method[0] == own[0]:
            # The fields of a dataclass are compared above.
            if not (name == "__init__" and "fields" in theirs):
                wrong += compare_signature(f"{where}.{name}", method[1], own[1])
        elif method != own:
            wrong.append(f"{where}.{name}: {method} became {own}")
    return wrong


def compare_module(module: str, theirs: Any, ours: Any) -> list[str]:
    wrong = []
    for name, thing in theirs.items():
        where, own = f"{module}.{name}", ours.get(name)
        if name in ELSEWHERE:
            continue
        if own is None:
            wrong.append(f"{where} is missing")
        elif name == "__all__" or (isinstance(thing, list) and thing[:1] != ["function"]):
            if not set(thing) <= set(own):
                wrong.append(f"{where} lacks {sorted(set(thing) - set(own))}")
        elif isinstance(thing, list):
            wrong += compare_signature(where, thing[1], own[1])
        else:
            wrong += compare_class(where, thing, own)
    return wrong


@pytest.mark.recipes
@pytest.mark.parametrize("version", ["5.0.0", "4.1.0"])
def test_every_name_signature_default_field_and_value_is_the_same(
    version: str, tmp_path: Path
) -> None:
    theirs = surface(environment(tmp_path / "theirs", "--no-deps", f"agt-sandbox=={version}"))
    ours = surface(sys.executable)
    assert len(theirs["agent_sandbox"]["__all__"]) >= 17
    wrong = []
    for module, names in theirs.items():
        if names is not None:
            wrong += compare_module(module, names, ours[module] or {})
    assert wrong == []


@pytest.mark.recipes
def test_comparison_finds_a_changed_default_and_a_missing_name() -> None:
    theirs = {"f": ["function", [["a", "KEYWORD_ONLY", "1"]]], "g": ["function", []]}
    ours = {"f": ["function", [["a", "KEYWORD_ONLY", "2"]]]}
    assert len(compare_module("m", theirs, ours)) == 2


@pytest.mark.recipes
def test_all_tests_pass_with_the_toolkit(tmp_path: Path) -> None:
    python = environment(tmp_path / "toolkit", "agent-governance-toolkit-core==5.0.0")
    found = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    # This environment's packages come after the toolkit's.
    needed = ("stockade", "pytest")
    paths = [path for path in sys.path if any(Path(path, name).is_dir() for name in needed)]
    Path(found.stdout.strip(), "tests.pth").write_text("\n".join(paths) + "\n")
    words = [python, "-m", "pytest", "-q", "-rsfE", "--tb=short", "-p", "no:cacheprovider", "-m", "not recipes"]
    # What depends on the toolkit does not depend on the wall, so one wall is enough.
    environ = {**os.environ, "STOCKADE_DOCKER": ""}
    environ.pop("DOCKER_HOST", None)
    ended = subprocess.run(
        [*words, str(HERE)], capture_output=True, text=True, cwd=HERE, timeout=3000, env=environ
    )
    # Failures come after what was skipped.
    assert ended.returncode == 0, ended.stdout[-8000:]
    assert "needs the hypervisor" not in ended.stdout

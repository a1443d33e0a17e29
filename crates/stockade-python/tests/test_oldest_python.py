"""The package runs on the oldest Python that it names, which this machine may not have, and on the
others that it has."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Optional

import agent_sandbox
import pytest

import stockade

OLDEST = (3, 9)

MODULES = sorted(
    module
    for package in (stockade, agent_sandbox)
    for module in Path(package.__file__).parent.rglob("*.py")
)


def problems(source: str) -> list[str]:
    """What the oldest Python cannot do with a module."""
    try:
        tree = ast.parse(source, feature_version=OLDEST)
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    futures = [
        name.name
        for part in tree.body
        if isinstance(part, ast.ImportFrom) and part.module == "__future__"
        for name in part.names
    ]
    hints = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) or (isinstance(node, ast.arg) and node.annotation)
    ]
    # Without it, `int | None` and `list[int]` of hints are computed.
    return ["its hints are computed"] if hints and "annotations" not in futures else []


def test_named_oldest_version_is_the_tested_one() -> None:
    required = importlib.metadata.metadata("stockade")["Requires-Python"]
    assert required == ">=" + ".".join(map(str, OLDEST))


def test_every_module_is_python_of_the_oldest_version() -> None:
    assert len(MODULES) > 40
    found = {str(module): problems(module.read_text()) for module in MODULES}
    assert {module: what for module, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "match 1:\n    case 1: pass\n",
        "try: pass\nexcept* ValueError: pass\n",
        "def f(x: int | None) -> None: ...\n",
    ],
)
def test_newer_syntax_is_found(source: str) -> None:
    compile(source, "newer", "exec")
    assert problems(source) != []


HERE = Path(__file__).parent


def interpreter(minor: int) -> Optional[str]:
    """Another Python of this host, by its path or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    built = sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/python3")))
    for found in [*built, shutil.which(f"python3.{minor}")]:
        words = [str(found), "-c", "import sys; print(sys.version_info[1])"]
        if found and subprocess.run(words, capture_output=True, text=True).stdout == f"{minor}\n":
            return found
    return None


@pytest.mark.parametrize("minor", range(OLDEST[1], 15))
@pytest.mark.parametrize("program", ["unprivileged.py", "agent_program.py"])
def test_one_wheel_runs_on_every_python_of_this_host(
    minor: int, program: str, tmp_path: Path
) -> None:
    python = sys.executable if sys.version_info[1] == minor else interpreter(minor)
    if python is None:
        pytest.skip(f"this host has no Python 3.{minor}")
    # The packages alone: those next to them may be for another version.
    for package in (stockade, agent_sandbox):
        place = Path(package.__file__).parent
        (tmp_path / place.name).symlink_to(place)
    ended = subprocess.run(
        [python, str(HERE / program), "native"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ended.returncode == 0, ended.stderr


def test_wheel_is_for_every_python_from_the_oldest_on() -> None:
    folder = os.environ.get("STOCKADE_WHEELS")
    assert folder, "STOCKADE_WHEELS names the folder of the wheel"
    (wheel,) = Path(folder).glob("stockade-*.whl")
    assert f"-cp{OLDEST[0]}{OLDEST[1]}-abi3-" in wheel.name

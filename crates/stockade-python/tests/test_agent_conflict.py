"""agt-sandbox in one environment with the package that replaces it, in both orders."""

from __future__ import annotations

import os
import re
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import python

WHEELS = os.environ.get("STOCKADE_WHEELS")
"""The folder of the wheel that is tested."""

WHO = "import agent_sandbox; print(agent_sandbox.__doc__)"


def other(place: Path) -> Path:
    """A wheel with the name and the package of agt-sandbox."""
    info = "agt_sandbox-5.0.0.dist-info"
    files = {
        "agent_sandbox/__init__.py": "'''Theirs.'''\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: agt_sandbox\nVersion: 5.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    wheel = place / "agt_sandbox-5.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


def importing(place: Path, code: str = WHO) -> subprocess.CompletedProcess[str]:
    words = [str(place / "bin/python"), "-c", code]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def pip(place: Path, *words: str) -> None:
    command = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=500)


def check_order(place: Path, theirs: list[str], stockade_first: bool) -> None:
    """Installs both, and follows the advice of the error without the registry."""
    assert WHEELS, "STOCKADE_WHEELS names the folder of the wheel"
    ours = ["install", "--no-index", str(next(Path(WHEELS).glob("stockade-*.whl")))]
    venv.create(place, with_pip=True)
    first, second = (ours, theirs) if stockade_first else (theirs, ours)
    pip(place, *first)
    alone = importing(place)
    assert alone.stdout.startswith("Programs written for Microsoft's") is stockade_first
    pip(place, *second)
    for code in (WHO, f"import stockade; {WHO}", "from agent_sandbox import sandbox_provider"):
        refused = importing(place, code)
        assert refused.returncode == 1 and refused.stdout == ""
        assert "ImportError: agt-sandbox 5.0.0 is installed next to stockade" in refused.stderr
    assert importing(place, "import stockade").returncode == 0
    advice = re.search(r"run `([^`]+)`", refused.stderr)
    assert advice
    uninstall, _, again = advice[1].partition(" && ")
    offline = {**os.environ, "PIP_NO_INDEX": "1"}
    subprocess.run(uninstall, shell=True, check=True, capture_output=True, timeout=120)
    missing = importing(place)
    assert missing.returncode == 1 and again in missing.stderr
    subprocess.run(again, shell=True, check=True, capture_output=True, env=offline, timeout=500)
    assert importing(place).stdout.startswith("Programs written for Microsoft's")


@pytest.mark.parametrize("stockade_first", [True, False])
def test_package_next_to_the_one_that_it_replaces_is_refused_in_both_orders(
    stockade_first: bool, tmp_path: Path
) -> None:
    theirs = ["install", "--no-index", str(other(tmp_path))]
    check_order(tmp_path / "both", theirs, stockade_first)


@pytest.mark.recipes
@pytest.mark.parametrize("stockade_first", [True, False])
def test_real_agt_sandbox_is_refused_in_both_orders(stockade_first: bool, tmp_path: Path) -> None:
    check_order(tmp_path / "both", ["install", "--no-deps", "agt-sandbox==5.0.0"], stockade_first)


def test_package_that_is_replaced_is_an_import_error(tmp_path: Path) -> None:
    info = tmp_path / "agt_sandbox-5.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agt_sandbox\nVersion: 5.0.0\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import agent_sandbox"
    ended = python(code)
    assert ended.returncode != 0 and "ImportError: agt-sandbox 5.0.0" in ended.stderr
    assert "pip uninstall -y agt-sandbox" in ended.stderr
    assert python("import agent_sandbox").returncode == 0

"""The pages and the recipes run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest
from conftest import ROOT, is_required, python

import stockade

RECIPES = ROOT / "examples" / "python"


def blocks(page: str) -> list[str]:
    """The Python programs of a page."""
    text = (ROOT / page).read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def recipe(name: str, missing: Optional[str] = None) -> str:
    """What a recipe prints."""
    if missing:
        pytest.importorskip(missing)
    words = [sys.executable, str(RECIPES / name)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_quick_start_of_the_readme_runs_as_written(tmp_path: Path) -> None:
    (program,) = blocks("README.md")
    ended = python(program, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("45\n") and "134000" in ended.stdout


@pytest.mark.parametrize(
    "program",
    [
        *blocks("docs/python.md"),
        *blocks("docs/state.md"),
        *blocks("docs/contexts.md"),
        *blocks("docs/migrating-from-agt-sandbox.md"),
        *blocks("docs/tutorials.md"),
    ],
    ids=str.splitlines,
)
def test_examples_of_the_pages_run_as_written(program: str, tmp_path: Path) -> None:
    ended = python(program, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_reference_is_what_the_generator_writes() -> None:
    generator = ROOT / "crates" / "stockade-python" / "reference.py"
    words = [sys.executable, str(generator), "--check"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout


def test_agent_loop_sees_the_denial_and_answers() -> None:
    printed = recipe("agent_loop.py")
    assert printed.startswith("The sum of the squares is 285.\nerror: ")
    assert "Compute it in Python" in printed


def test_openai_tool_answers_calls_and_mistakes() -> None:
    first, second = recipe("openai_tool.py").splitlines()
    assert '"stdout": "42\\n"' in first and "error" in second


@pytest.mark.machine
def test_vm_agent_returns_what_its_script_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The suite builds the image, and names the place; by hand it is the caller's own.
    machines = os.environ.get("STOCKADE_MACHINES")
    if machines:
        monkeypatch.setenv("XDG_DATA_HOME", machines)
    (wall,) = [wall for wall in stockade.doctor() if wall.provider == "qemu"]
    if not wall.usable and (machines or is_required("qemu")):
        pytest.fail(f"qemu is required, but cannot be used: {wall.reason}")
    if not wall.usable:
        pytest.skip(f"the qemu wall cannot be used here: {wall.reason}")
    system, processors, ready = recipe("vm_agent.py").splitlines()
    assert system.startswith("Linux ") and system != f"Linux {os.uname().release}"
    assert (processors, ready) == ("2", "ready")


@pytest.mark.recipes
def test_langchain_tool_runs() -> None:
    assert recipe("langchain_tool.py", "langchain_core") == "run_python ['code']\n42\n\n"


@pytest.mark.recipes
def test_smolagents_agent_runs_its_steps_in_the_sandbox() -> None:
    printed = recipe("smolagents_executor.py", "smolagents")
    # The agent's first step ran inside, and its second one knew the variable of the first.
    assert "\n/workspace sunny in Bern\n" in printed and printed.endswith("\n42\n")


@pytest.mark.recipes
def test_inspect_evaluates_a_task_in_the_sandbox() -> None:
    # The model's command ran in the sandbox, and the evaluation has its result.
    printed = recipe("inspect_provider.py", "inspect_ai")
    assert printed == "/workspace\n1 2 3\n1+2+3\n1.0\n"


@pytest.mark.recipes
def test_notebook_runs_to_its_end() -> None:
    pytest.importorskip("nbclient")
    code = f"""
import nbformat, nbclient
notebook = nbformat.read({str(RECIPES / "notebook.ipynb")!r}, 4)
nbclient.NotebookClient(notebook, timeout=120).execute()
print([cell["outputs"][0]["data"]["text/plain"] for cell in notebook.cells[1:3]])
"""
    words = [sys.executable, "-c", code]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert ended.stdout == """["'42\\\\n'", "'2'"]\n""", ended.stderr

"""The pages and the recipes run as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest
from conftest import ROOT, python

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


@pytest.mark.recipes
def test_langchain_tool_runs() -> None:
    assert recipe("langchain_tool.py", "langchain_core") == "run_python ['code']\n42\n\n"


@pytest.mark.recipes
def test_smolagents_executor_keeps_variables_and_calls_tools() -> None:
    assert recipe("smolagents_executor.py", "smolagents") == "sunny in Bern\n42\n"


@pytest.mark.recipes
def test_inspect_provider_runs_commands_and_moves_files() -> None:
    assert recipe("inspect_provider.py", "inspect_ai") == "True 1+2+3\n1 2 3\n"


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

"""The quick starts of agt-sandbox's own README, taken from its package and run as written."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from agents import only_docker

PRELUDE = """
from agent_sandbox import DockerSandboxProvider
def fetch_arxiv(query: str) -> str:
    return query
provider = DockerSandboxProvider(tools={"fetch_arxiv": fetch_arxiv})
async def main():
"""

AFTER = """
    for code in ("print('ran')", "import subprocess"):
        try:
            done = await provider.execute_code_async("agent-1", handle.session_id, code)
            print(done.result.stdout, end="")
        except PermissionError as error:
            print(error)
    await provider.destroy_session_async("agent-1", handle.session_id)
import asyncio
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The README of agt-sandbox 5.0.0."""
    place = tmp_path_factory.mktemp("readme")
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    words += ["--disable-pip-version-check", "--dest", str(place), "agt-sandbox==5.0.0"]
    subprocess.run(words, check=True, timeout=300)
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        name = next(it for it in wheel.namelist() if it.endswith(".dist-info/METADATA"))
        return wheel.read(name).decode()


def program(readme: str, language: str, mark: str) -> str:
    """The only program of a language that has a mark."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if mark in block]
    return str(found)


def run(code: str, place: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, cwd=place, timeout=120)


@pytest.mark.recipes
def test_quick_start_runs_as_written(provider: str, readme: str, tmp_path: Path) -> None:
    only_docker(provider)
    ended = run(program(readme, "python", "# Pick one:"), tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "hello\n\n"), ended.stderr


@pytest.mark.recipes
def test_docker_quick_start_runs_as_written_until_its_checkpoint(
    provider: str, readme: str, tmp_path: Path
) -> None:
    only_docker(provider)
    ended = run(program(readme, "python", "save_state"), tmp_path)
    assert ended.stdout.startswith("[0.0, 1.0, 1.41"), ended.stderr
    assert "NotImplementedError: save_state: this version of Stockade has no checkpoints" in ended.stderr


@pytest.mark.recipes
def test_policy_quick_start_runs_as_written(provider: str, readme: str, tmp_path: Path) -> None:
    only_docker(provider)
    policy = program(readme, "yaml", "deny-shell-out")
    for name in ("agent-input", "agent-output"):
        (tmp_path / name).mkdir()
    (tmp_path / "policies").mkdir()
    file = tmp_path / "policies" / "aca_research_agent.yaml"
    # Only the two directories differ: the README's are of another host.
    file.write_text(policy.replace("/data/", f"{tmp_path}/"))
    code = program(readme, "python", "from agent_os.policies import PolicyDocument")
    body = "".join(f"    {line}\n" for line in code.splitlines())
    ended = run(PRELUDE + body + AFTER, tmp_path)
    assert ended.returncode == 0, ended.stderr
    first, second = ended.stdout.splitlines()
    assert first == "ran"
    assert second.startswith("Policy denied: ") and "shell-out blocked by research-agent" in second


@pytest.mark.recipes
def test_quick_starts_of_light_providers_run_as_written(readme: str, tmp_path: Path) -> None:
    for mark, expected in [("hello from mxc", "hello from mxc"), ("hello from nono", "hello from nono")]:
        ended = run(program(readme, "python", mark), tmp_path)
        assert (ended.returncode, ended.stdout) == (0, f"{expected}\n\n"), ended.stderr


@pytest.mark.recipes
def test_quick_starts_of_missing_walls_end_with_the_reason(readme: str, tmp_path: Path) -> None:
    for mark, name, wall in [
        ("only meaningful for backend", "Hyperlight", "hyperlight"),
        ("selects the data-plane endpoint", "ACA", "aca"),
    ]:
        ended = run(program(readme, "python", mark), tmp_path)
        assert ended.returncode == 1 and ended.stdout == ""
        reason = f"{name} unavailable: the {wall} wall is not built into this version of Stockade"
        assert ended.stderr.startswith(reason), ended.stderr

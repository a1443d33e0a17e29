"""The quick starts of agt-sandbox's own README, taken from its package and run as written."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents import only_docker, readme_program as program, run_program as run

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


@pytest.mark.recipes
def test_quick_start_runs_as_written(provider: str, readme: str, tmp_path: Path) -> None:
    only_docker(provider)
    ended = run(program(readme, "python", "# Pick one:"), tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "hello\n\n"), ended.stderr


@pytest.mark.recipes
def test_docker_quick_start_runs_as_written(
    provider: str, readme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_docker(provider)
    monkeypatch.setenv("STOCKADE_STORE", str(tmp_path / "store"))
    ended = run(program(readme, "python", "save_state"), tmp_path)
    assert ended.stdout.startswith("[0.0, 1.0, 1.41"), ended.stderr
    assert ended.returncode == 0, ended.stderr


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
    for mark, reason in [
        (
            "only meaningful for backend",
            "Hyperlight unavailable: the hyperlight wall is not built into this version of Stockade",
        ),
        (
            "selects the data-plane endpoint",
            "ACA unavailable: cannot use the subscription: none is named",
        ),
    ]:
        ended = run(program(readme, "python", mark), tmp_path)
        assert ended.returncode == 1 and ended.stdout == ""
        assert ended.stderr.startswith(reason), ended.stderr

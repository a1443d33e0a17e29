"""One program of ``agent_sandbox``, as this user and as an unprivileged one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import STRICT, WALLS

PROGRAM = Path(__file__).parent / "agent_program.py"
NOBODY = 65534


def test_program_gives_the_documented_results(provider: str) -> None:
    words = [sys.executable, *STRICT, str(PROGRAM), provider]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"the program gave the documented results on {provider}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="the other test runs as an unprivileged user")
def test_program_gives_the_same_results_to_an_unprivileged_user(
    provider: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # The engine that an unprivileged user may use, and files that it may read.
    assert WALLS[provider].usable
    home = Path("/tmp") / f"stockade-nobody-{os.getpid()}"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    program = home / "program.py"
    shutil.copy(PROGRAM, program)
    program.chmod(0o644)
    packages = [path for path in sys.path if Path(path, "agent_sandbox").is_dir()]
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": ":".join(packages)}
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    if "DOCKER_HOST" in os.environ:
        variables["DOCKER_HOST"] = os.environ["DOCKER_HOST"]
    try:
        ended = subprocess.run(
            ["/usr/bin/python3", str(program), provider],
            capture_output=True,
            text=True,
            timeout=120,
            env=variables,
            cwd=home,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == f"the program gave the documented results on {provider}\n"
    finally:
        shutil.rmtree(home)

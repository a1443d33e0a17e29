"""``STOCKADE_REQUIRE``: a wall that the tests are about and that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ONE = "test_run.py::test_signal_that_kills_a_program_is_named[docker]"


@pytest.mark.parametrize("required", ["all", "docker"])
def test_required_wall_that_cannot_be_used_fails_instead_of_skipping(required: str) -> None:
    # An engine that does not answer.
    absent = {"STOCKADE_DOCKER": "1", "DOCKER_HOST": "unix:///absent/docker.sock"}
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", ONE]

    def run(**variables: str) -> str:
        environment = {**os.environ, **absent, "STOCKADE_REQUIRE": "", **variables}
        ended = subprocess.run(
            words,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            env=environment,
            timeout=120,
        )
        return ended.stdout

    skipped = run()
    assert "1 skipped" in skipped and "the docker wall cannot be used here" in skipped
    failed = run(STOCKADE_REQUIRE=required)
    assert "docker is required, but cannot be used" in failed and "1 skipped" not in failed
    # The suite `python` is not about containers.
    assert ("1 skipped" in run(STOCKADE_REQUIRE=required, STOCKADE_DOCKER="")) is (required == "all")

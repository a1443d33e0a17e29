"""The walls that the tests use, and what they need of the host."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import engine
import pytest

import stockade
from stockade import Sandbox

if os.environ.get("STOCKADE_DOCKER") == "1" and "DOCKER_HOST" not in os.environ:
    engine.start()

ROOT = Path(os.environ.get("STOCKADE_SOURCE") or Path(__file__).parents[3])
"""The source tree, for pages and examples."""

AGENT_PACKAGE = "agt-sandbox==5.0.0"
"""The package whose README has the quick starts."""

WALLS = {wall.provider: wall for wall in stockade.doctor()}

_REQUIRED = {name.strip() for name in os.environ.get("STOCKADE_REQUIRE", "").split(",")}

# The walls that this run is about: the suites `python` and `python-recipes` differ in containers.
_MEANT = {"native", "docker"} if os.environ.get("STOCKADE_DOCKER") == "1" else {"native"}


def is_required(wall: str) -> bool:
    """Whether a test must fail that cannot use a wall."""
    is_whole = not _REQUIRED.isdisjoint(("all", "python", "python-recipes"))
    return wall in _REQUIRED or (is_whole and wall in _MEANT)


def pytest_sessionstart() -> None:
    """The tests are about the installed package."""
    installed = Path(stockade.__file__)
    is_source = ROOT in installed.parents
    assert not is_source, f"{installed} is not an installed package"


@pytest.fixture(params=["native", "docker"])
def provider(request: pytest.FixtureRequest) -> str:
    """Each wall that runs the same programs."""
    name: str = request.param
    wall = WALLS[name]
    if not wall.usable and is_required(name):
        pytest.fail(f"{name} is required, but cannot be used: {wall.reason}")
    if not wall.usable:
        pytest.skip(f"the {name} wall cannot be used here: {wall.reason}")
    return name


@pytest.fixture(autouse=True)
def records(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the records of tests out of the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="session")
def readme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The README of agt-sandbox 5.0.0, from the file that AGENT_README names or the registry."""
    if file := os.environ.get("AGENT_README"):
        return Path(file).read_text()
    place = tmp_path_factory.mktemp("readme")
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    words += ["--disable-pip-version-check", "--dest", str(place), AGENT_PACKAGE]
    subprocess.run(words, check=True, timeout=300)
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        name = next(it for it in wheel.namelist() if it.endswith(".dist-info/METADATA"))
        return wheel.read(name).decode()


@pytest.fixture
def sandbox(provider: str) -> Iterator[Sandbox]:
    """An open sandbox with the default policy."""
    with Sandbox(provider=provider) as opened:
        yield opened


# Warnings are errors. The toolkit, where it is installed, warns that its own parts are deprecated.
STRICT = ["-W", "error"]
if any(importlib.metadata.distributions(name="agent-governance-toolkit-core")):
    STRICT += ["-W", "ignore::DeprecationWarning"]


def python(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter that has the package."""
    words = [sys.executable, *STRICT, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something holds before a deadline."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def processes(mark: str) -> list[int]:
    """The processes of this machine whose command line has a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if mark in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found

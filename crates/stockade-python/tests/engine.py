"""A Docker engine of the tests' own, for runs with ``STOCKADE_DOCKER=1``."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

# Made by the Rust tests of the container wall; the number grows with its content.
_IMAGE = "stockade/docker/python-bookworm-*.tar"

# The second is the one that the README of agt-sandbox names.
_IMAGES = ("python:3.11-slim", "python:3.12-slim")


def start() -> None:
    """Starts an engine that every user may use, and names it in ``DOCKER_HOST``. It ends with this
    process."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    image = max(cache.glob(_IMAGE), default=None)
    missing = [name for name in ("dockerd", "docker", "runc") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing or image is None:
        reason = f"missing: {', '.join(missing) or cache / _IMAGE}" if os.geteuid() == 0 else "not root"
        raise RuntimeError(f"STOCKADE_DOCKER=1, but an engine cannot be started: {reason}")
    place = Path(tempfile.mkdtemp(prefix="stockade-engine-"))
    place.chmod(0o711)
    # Without other runtimes: the suite `docker` has the tests of gVisor.
    (place / "daemon.json").write_text("{}")
    socket = place / "docker.sock"
    words = ["dockerd", "--config-file", str(place / "daemon.json"), "--bridge=none"]
    words += ["--data-root", str(place / "data"), "--exec-root", str(place / "exec")]
    words += ["--pidfile", str(place / "pid"), "--host", f"unix://{socket}"]
    words += ["--iptables=false", "--ip-forward=false"]
    with open(place / "log", "wb") as log:
        daemon = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    atexit.register(_stop, daemon, place)
    os.environ["DOCKER_HOST"] = f"unix://{socket}"
    until = time.monotonic() + 60
    while subprocess.run(["docker", "version"], capture_output=True).returncode != 0:
        if time.monotonic() > until or daemon.poll() is not None:
            raise RuntimeError(f"the engine does not answer: {(place / 'log').read_text()[-800:]}")
        time.sleep(0.2)
    socket.chmod(0o666)
    for words in (["import", str(image), "python:3.11-slim"], ["tag", *_IMAGES]):
        subprocess.run(["docker", *words], check=True, capture_output=True, timeout=300)


def _stop(daemon: subprocess.Popen[bytes], place: Path) -> None:
    daemon.terminate()
    try:
        daemon.wait(60)
    except subprocess.TimeoutExpired:
        daemon.kill()
    shutil.rmtree(place, ignore_errors=True)

"""Providers of ``agent_sandbox`` for the tests."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent_sandbox import DockerSandboxProvider, IsolationRuntime, NonoSandboxProvider


def make(wall: str, **options: Any) -> Any:
    """The provider whose sessions are behind a wall."""
    if wall == "native":
        return NonoSandboxProvider(**options)
    # The other runtimes have tests of their own, and starting one takes longer.
    return DockerSandboxProvider(**{"runtime": IsolationRuntime.RUNC, **options})


@contextmanager
def serving() -> Iterator[tuple[int, list[str]]]:
    """A server on this host's loopback: its port, and the paths that were requested."""
    seen: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            body = f"served {self.path}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], seen
        server.shutdown()


def only_docker(wall: str) -> None:
    """Skips a test that is about containers alone."""
    if wall != "docker":
        pytest.skip("only containers")


def containers(label: str) -> set[str]:
    """The ids of the containers with a label."""
    words = ["docker", "ps", "--all", "--quiet", "--filter", f"label={label}"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return set(ended.stdout.split())

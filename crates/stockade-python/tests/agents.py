"""Providers of ``agent_sandbox`` for the tests."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Optional

import pytest

from agent_sandbox import DockerSandboxProvider, IsolationRuntime, NonoSandboxProvider


def make(wall: str, **options: Any) -> Any:
    """The provider whose sessions are behind a wall."""
    if wall == "native":
        return NonoSandboxProvider(**options)
    # The other runtimes have tests of their own, and starting one takes longer.
    return DockerSandboxProvider(**{"runtime": IsolationRuntime.RUNC, **options})


@contextmanager
def serving(
    certificate: Optional[Path] = None, key: Optional[Path] = None
) -> Iterator[tuple[int, list[str]]]:
    """A server on this host's loopback, with TLS if it has a certificate: its port, and the paths
    that were requested."""
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
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
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


def readme_program(readme: str, language: str, mark: str) -> str:
    """The only program of a language in a README that has a mark."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if mark in block]
    return str(found)


def run_program(code: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program in a directory, in an interpreter of its own."""
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, cwd=place, timeout=300)

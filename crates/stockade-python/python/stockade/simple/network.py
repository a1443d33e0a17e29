"""Which connections code may open, decided by the gate of a sandbox."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional

from .. import errors
from ..command import CommandHandle
from ..policy import Policy
from ..sandbox import Sandbox as _Wall
from .sandboxes import Sandbox, SandboxConfig

# The longest time limit of a policy; each execution has its own.
_LONGEST_SECONDS = 604_800

# The ports that code reaches without `allowed_ports`: a gate has a list of them.
_USUAL_PORTS = (80, 443)

# Runs inside: passes connections to a port of the sandbox on to the gate's proxy.
_RELAY = """
import os, socket, sys, threading, urllib.parse
gate = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()
def serve(one):
    other = socket.create_connection((gate.hostname, gate.port))
    threading.Thread(target=copy, args=(other, one), daemon=True).start()
    copy(one, other)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@dataclass
class NetworkPolicy:
    """Which connections code may open."""

    allow_outbound: bool = False
    """Whether there is a network at all."""
    allowed_hosts: Optional[Collection[str]] = None
    """The only hosts, such as ``example.com`` or ``*.example.com``; None is every public host."""
    allowed_ports: Optional[Collection[int]] = None
    """The only ports. None is any port for `NetworkSandbox.check_connection`, and 80 and 443 for
    code; an empty collection is no network."""
    blocked_hosts: Optional[Collection[str]] = None
    """Names, addresses and ranges that are never reached."""
    max_connections: int = 10
    """How many connections may be open at once."""
    inspect: bool = False
    """Whether the gate ends TLS to `allowed_hosts`, and records the method, path and status of each
    request there. Clients that pin certificates do not work then."""

    @property
    def _has_network(self) -> bool:
        """Whether any connection is allowed."""
        return self.allow_outbound and (self.allowed_ports is None or len(self.allowed_ports) > 0)

    def clauses(self, any_port: Collection[int] = _USUAL_PORTS) -> dict[str, Any]:
        """The same as clauses of a policy; `any_port` has the ports if the policy names none."""
        ports = sorted(any_port if self.allowed_ports is None else self.allowed_ports)
        hosts: list[Any] = sorted(self.allowed_hosts or ())
        if self.inspect:
            if self.allowed_hosts is None:
                raise ValueError("inspect needs allowed_hosts: name the hosts whose TLS is ended")
            hosts = [{"host": host, "inspect": True} for host in hosts]
        is_open = self._has_network and self.allowed_hosts is None
        return {
            "defaults": {"network_default": "allow" if is_open else "deny"},
            "network_ports": ports,
            "network_allowlist": hosts if self._has_network else [],
            "network_blocklist": sorted(self.blocked_hosts or ()),
            "limits": {"max_connections": self.max_connections},
        }


class NetworkSandbox:
    """Judges connections by a policy, and runs code whose connections are judged by the same."""

    def __init__(self, policy: Optional[NetworkPolicy] = None) -> None:
        self.policy = policy if policy is not None else NetworkPolicy()
        """Which connections are allowed."""
        self.active_connections = 0
        """How many the caller has opened."""
        self._checked = Policy.build(**self.policy.clauses())
        self._lock = threading.Lock()
        self._inside = _Gated(self.policy)

    def check_connection(self, host: str, port: int) -> bool:
        """Whether a connection may be opened now."""
        with self._lock:
            has_room = self.active_connections < self.policy.max_connections
        return has_room and self._may(host, port)

    def open_connection(self, host: str, port: int) -> bool:
        """Counts a connection, if it may be opened. Returns whether it may."""
        if not self._may(host, port):
            return False
        with self._lock:
            has_room = self.active_connections < self.policy.max_connections
            self.active_connections += has_room
            return has_room

    def close_connection(self) -> None:
        """Counts the end of a connection."""
        with self._lock:
            self.active_connections = max(0, self.active_connections - 1)

    def execute(self, code: str) -> dict[str, Any]:
        """Runs Python code that reaches what the policy allows; the result is that of
        `Sandbox.execute`."""
        return self._inside.execute(code)

    def cleanup(self) -> None:
        """Ends the sandbox of `execute`."""
        self._inside.cleanup()

    def _may(self, host: str, port: int) -> bool:
        """Whether the gate would connect: it judges the name, and then every address of it. Where
        nothing is found, the name alone is judged; the gate looks it up and judges again."""
        if not self.policy._has_network:
            return False
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            checked = self._checked
            if self.policy.allowed_ports is None:
                checked = Policy.build(**self.policy.clauses([port]))
            if not checked.why(host=name):
                return False
            return all(checked.why(host=name, address=it) for it in _addresses(host, port))
        except (errors.InvalidError, errors.PolicyError):
            return False


class ProxiedNetworkSandbox(NetworkSandbox):
    """Also logs every request of the code. Inside, the gate's proxy listens on `proxy_port` too."""

    def __init__(self, policy: Optional[NetworkPolicy] = None, proxy_port: int = 8080) -> None:
        super().__init__(policy)
        self.proxy_port = proxy_port
        """A port of the sandbox's own loopback."""
        self.request_log: list[dict[str, Any]] = []
        """Each request with ``timestamp``, ``method``, ``url`` and ``status``."""
        self._inside = _Gated(self.policy, proxy_port)
        self._seen = 0

    def execute(self, code: str) -> dict[str, Any]:
        """Runs Python code and logs what it requests."""
        try:
            return super().execute(code)
        finally:
            self._read_events()

    def cleanup(self) -> None:
        """Ends the sandbox of `execute`; the log stays."""
        super().cleanup()
        self._seen = 0

    def log_request(self, method: str, url: str, response_status: int) -> None:
        """Adds a request that the caller made itself."""
        self._log(time.time(), method, url, response_status)

    def get_request_summary(self) -> dict[str, Any]:
        """``total_requests``, counts ``by_method`` and ``by_status``, and ten ``recent`` ones."""
        with self._lock:
            log = list(self.request_log)
        counts: dict[str, dict[str, int]] = {"method": {}, "status": {}}
        for request in log:
            for name, count in counts.items():
                value = str(request[name])
                count[value] = count.get(value, 0) + 1
        return {
            "total_requests": len(log),
            "by_method": counts["method"],
            "by_status": counts["status"],
            "recent": log[-10:],
        }

    def _log(self, at: float, method: str, url: str, status: Any) -> None:
        entry = {"timestamp": at, "method": method, "url": url, "status": status}
        with self._lock:
            self.request_log.append(entry)

    def _read_events(self) -> None:
        """Logs the requests that the gate has recorded since the last time."""
        wall = self._inside._wall
        events = list(wall.events()) if wall is not None else []
        fresh, self._seen = events[self._seen :], len(events)
        for event in fresh:
            body = event["body"]
            # A refused question for a name is not a request; the connection that follows is.
            if event["kind"] == "egress" and body.get("via") != "dns":
                at = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
                self._log(at, body.get("method") or "CONNECT", _url(body), _status(body))


class _Gated(Sandbox):
    """A sandbox with a network policy."""

    def __init__(self, policy: NetworkPolicy, proxy_port: Optional[int] = None) -> None:
        super().__init__(SandboxConfig(max_cpu_percent=100))
        self._policy, self._proxy_port = policy, proxy_port
        self._relay: Optional[CommandHandle] = None

    def _clauses(self) -> dict[str, Any]:
        made, own = self.config.clauses(), self._policy.clauses()
        for section in ("defaults", "limits"):
            own[section] = {**made[section], **own[section]}
        # The relay runs as long as the sandbox; each code has its own limit.
        own["defaults"]["timeout_seconds"] = _LONGEST_SECONDS
        return {**made, **own}

    def _make(self) -> _Wall:
        wall = super()._make()
        if self._proxy_port is not None and self._policy._has_network:
            self._relay = wall.start_code(_RELAY, arguments=[str(self._proxy_port)])
            next(iter(self._relay.stdout), "")
        return wall


def _addresses(host: str, port: int) -> list[str]:
    """The addresses of a host; empty if this machine finds none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted({str(it[4][0]) for it in found})


def _url(body: dict[str, Any]) -> str:
    # A method is known without TLS, and of TLS that ended at the gate.
    is_plain = body.get("method") and body.get("inspection") != "opened"
    scheme = "http" if is_plain else "https"
    usual = 80 if scheme == "http" else 443
    port = "" if body.get("port") == usual else f":{body.get('port')}"
    return f"{scheme}://{body.get('host')}{port}{body.get('path') or '/'}"


def _status(body: dict[str, Any]) -> Any:
    """The status of a request: the server's, 403 for a denial, otherwise unknown."""
    if body.get("status") is not None:
        return body["status"]
    return 403 if body.get("verdict") == "deny" else "unknown"

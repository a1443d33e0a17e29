"""The classes of tutorials, in front of real walls."""

from __future__ import annotations

import inspect
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import only_docker, serving
from conftest import eventually

import stockade
from stockade.simple import (
    DockerSandbox,
    FilesystemSandbox,
    NetworkPolicy,
    NetworkSandbox,
    ProcessSandbox,
    ProxiedNetworkSandbox,
    ResourceExhaustedError,
    Sandbox,
    SandboxConfig,
    SandboxManager,
    SecurityError,
    SubprocessSandbox,
    run_code_in_sandbox,
    safe_shell,
)


def sandbox_of(wall: str, config: SandboxConfig) -> Sandbox:
    """The sandbox of a wall."""
    return DockerSandbox(config) if wall == "docker" else ProcessSandbox(config)


def test_code_returns_a_dictionary(provider: str) -> None:
    with sandbox_of(provider, SandboxConfig()) as sandbox:
        code = "import sys; print(1); print('e', file=sys.stderr); sys.exit(3)"
        done = sandbox.execute(code)
        assert done == {"success": False, "stdout": "1\n", "stderr": "e\n", "return_code": 3}
        assert sandbox.execute("print(2)")["success"] is True
        killed = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
        assert sandbox.execute(killed)["return_code"] == -15
    assert Sandbox().execute("print(3)")["stdout"] == "3\n"


def test_time_over_is_a_timeout_and_the_next_code_runs(provider: str) -> None:
    with sandbox_of(provider, SandboxConfig(max_execution_time_seconds=1)) as sandbox:
        done = sandbox.execute("import time; time.sleep(60)")
        expected = {"success": False, "error": "Execution timeout exceeded", "timeout": True}
        assert done == expected
        assert sandbox.execute("print(1)")["stdout"] == "1\n"


def test_memory_over_is_an_error(provider: str) -> None:
    code = "x = bytearray(300 << 20)"
    with sandbox_of(provider, SandboxConfig()) as wide:
        assert wide.execute(code)["success"]
    with sandbox_of(provider, SandboxConfig(max_memory_mb=64)) as narrow:
        done = narrow.execute(code)
        assert not done["success"] and ("memory" in done.get("error", "") or done["stderr"])


def test_paths_are_read_only_and_variables_arrive(provider: str, tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir(mode=0o755)
    (place / "x").write_text("shown")
    (place / "x").chmod(0o644)
    variables = {"WORD": "w", "API_TOKEN": "t"}
    paths = [str(place), "/tmp"]
    config = SandboxConfig(allowed_filesystem_paths=paths, environment_variables=variables)
    with sandbox_of(provider, config) as sandbox:
        code = f"import os; print(open('{place}/x').read(), os.environ['WORD'], os.environ['API_TOKEN'])"
        assert sandbox.execute(code)["stdout"] == "shown w t\n"
        assert not sandbox.execute(f"open('{place}/x', 'w')")["success"]
    assert (place / "x").read_text() == "shown"


def test_only_allowed_commands_start() -> None:
    code = "import subprocess; print(subprocess.run(['{}', 'x'], capture_output=True).stdout)"
    with ProcessSandbox(SandboxConfig(allowed_commands=["echo"])) as sandbox:
        assert sandbox.execute(code.format("echo"))["stdout"] == "b'x\\n'\n"
        assert not sandbox.execute(code.format("ls"))["success"]
    with ProcessSandbox(SandboxConfig()) as free:
        assert free.execute(code.format("ls"))["success"]


def test_network_is_closed_until_it_is_allowed(provider: str) -> None:
    code = "import urllib.request as r; print(r.urlopen('http://{}/', timeout=5).status)"
    with serving() as (port, seen):
        place = f"127.0.0.1:{port}"
        network = NetworkSandbox(NetworkPolicy(allow_outbound=True, allowed_hosts=[place]))
        assert network.execute(code.format(place))["stdout"] == "200\n"
        network.cleanup()
        with sandbox_of(provider, SandboxConfig()) as sandbox:
            assert not sandbox.execute(code.format(place))["success"]
        assert seen == ["/"]


def test_image_that_is_missing_is_an_error(provider: str) -> None:
    only_docker(provider)
    done = DockerSandbox(SandboxConfig(), image="no-such-image:1").execute("print(1)")
    assert done["success"] is False and "no image no-such-image:1" in done["error"]
    assert "docker pull" in done["error"]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of names: tests reach no name server."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: int, **options: Any) -> list[Any]:
        found = known.get(host.lower().rstrip("."), [host])
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        options["flags"] = socket.AI_NUMERICHOST
        return [it for address in found for it in real(address, port, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def test_connections_are_judged_and_counted(names: dict[str, list[str]]) -> None:
    for name in ("api.example.com", "bad.example.com", "other.example.com", "example.org"):
        names[name] = ["8.8.4.4"]
    closed = NetworkSandbox(NetworkPolicy())
    assert not closed.check_connection("api.example.com", 443)
    policy = NetworkPolicy(
        allow_outbound=True,
        allowed_hosts={"api.example.com", "bad.example.com", "192.0.2.7"},
        allowed_ports={443},
        blocked_hosts={"bad.example.com", "192.0.2.0/24"},
        max_connections=2,
    )
    network = NetworkSandbox(policy)
    asked = [("api.example.com", 443), ("API.example.com.", 443), ("api.example.com", 80)]
    asked += [("other.example.com", 443), ("bad.example.com", 443), ("192.0.2.7", 443), ("a b", 443)]
    answers = [network.check_connection(host, port) for host, port in asked]
    assert answers == [True, True, False, False, False, False, False]
    assert [network.open_connection("api.example.com", 443) for _ in range(3)] == [True, True, False]
    assert not network.check_connection("api.example.com", 443)
    network.close_connection()
    assert network.open_connection("api.example.com", 443) and network.active_connections == 2
    some_port = NetworkPolicy(allow_outbound=True, allowed_ports=[443])
    anywhere = NetworkSandbox(NetworkPolicy(allow_outbound=True))
    assert anywhere.check_connection("example.org", 443)
    # Without a list every port is open, but no address that is not public.
    assert anywhere.check_connection("example.org", 8443)
    assert not NetworkSandbox(some_port).check_connection("example.org", 8443)
    for host in ("169.254.169.254", "10.0.0.1", "127.0.0.1"):
        assert not any(anywhere.check_connection(host, port) for port in (22, 80, 8443))
    assert not any(anywhere.check_connection("example.org", port) for port in (0, -1, 65536))


@pytest.mark.parametrize("hosts", [None, ["inner.example"]])
def test_every_address_of_a_name_is_judged(names: dict[str, list[str]], hosts: Any) -> None:
    network = NetworkSandbox(NetworkPolicy(allow_outbound=True, allowed_hosts=hosts))
    for found, is_allowed in [
        (["8.8.4.4"], True),
        (["8.8.4.4", "10.0.0.1"], False),
        (["127.0.0.1"], False),
        (["169.254.169.254"], False),
        (["fd00::1"], False),
        # Without an address the name alone is judged.
        ([], True),
    ]:
        names["inner.example"] = found
        assert network.check_connection("inner.example", 443) is is_allowed, found
        assert network.open_connection("inner.example", 443) is is_allowed, found
    names["no-address.example"] = []
    assert network.check_connection("no-address.example", 443) is (hosts is None)


def test_host_is_judged_by_name_on_a_machine_that_resolves_nothing(
    names: dict[str, list[str]],
) -> None:
    for host in ("api.example.com", "a.example.org", "bad.example.org", "other.example.com"):
        names[host] = []
    policy = NetworkPolicy(
        allow_outbound=True,
        allowed_hosts=["api.example.com", "*.example.org"],
        allowed_ports=[80, 443],
        blocked_hosts=["bad.example.org"],
    )
    network = NetworkSandbox(policy)
    asked = [("api.example.com", 443), ("a.example.org", 443), ("api.example.com", 22)]
    asked += [("bad.example.org", 443), ("other.example.com", 443)]
    answers = [network.check_connection(host, port) for host, port in asked]
    assert answers == [True, True, False, False, False]
    assert [network.open_connection(host, port) for host, port in asked] == answers
    assert not NetworkSandbox().check_connection("api.example.com", 443)
    anywhere = NetworkSandbox(NetworkPolicy(allow_outbound=True))
    assert anywhere.check_connection("api.example.com", 443)
    names["metadata.google.internal"] = []
    assert not anywhere.check_connection("metadata.google.internal", 80)
    # A name that resolves is judged by its addresses too.
    names["api.example.com"] = ["10.0.0.1"]
    assert not network.check_connection("api.example.com", 443)


def test_empty_collection_of_ports_is_no_network(names: dict[str, list[str]]) -> None:
    names["example.org"] = ["8.8.4.4"]
    code = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:{}/', timeout=5).status)"
    with serving() as (port, seen):
        hosts = [f"127.0.0.1:{port}"]
        for ports, status in (([port], "200\n"), ([], "")):
            policy = NetworkPolicy(allow_outbound=True, allowed_hosts=hosts, allowed_ports=ports)
            network = NetworkSandbox(policy)
            assert network.check_connection("127.0.0.1", port) is bool(ports)
            assert network.execute(code.format(port))["stdout"] == status
            network.cleanup()
        assert seen == ["/"]
    for ports in (None, []):
        network = NetworkSandbox(NetworkPolicy(allow_outbound=True, allowed_ports=ports))
        assert network.check_connection("example.org", 443) is (ports is None)


def test_requests_of_code_are_in_the_log() -> None:
    code = """
import urllib.error, urllib.request
def ask(url, proxy=None):
    handlers = [urllib.request.ProxyHandler({{"http": proxy}})] if proxy else []
    try:
        print(urllib.request.build_opener(*handlers).open(url, timeout=10).status)
    except urllib.error.HTTPError as error:
        print(error.code)
ask("http://127.0.0.1:{port}/one")
ask("http://127.0.0.1:{port}/two", "http://127.0.0.1:8089")
ask("http://192.0.2.1/")
"""
    with serving() as (port, seen):
        policy = NetworkPolicy(
            allow_outbound=True, allowed_hosts=[f"127.0.0.1:{port}"], allowed_ports=[80, port]
        )
        network = ProxiedNetworkSandbox(policy, proxy_port=8089)
        done = network.execute(code.format(port=port))
        assert done["stdout"] == "200\n200\n403\n", done
        assert seen == ["/one", "/two"]
        network.log_request("POST", "https://example.com/x", 201)
        summary = network.get_request_summary()
        assert summary["total_requests"] == 4 == len(network.request_log)
        assert summary["by_method"] == {"GET": 3, "POST": 1}
        assert summary["by_status"] == {"200": 2, "403": 1, "201": 1}
        assert [it["url"] for it in summary["recent"]][0] == f"http://127.0.0.1:{port}/one"
        for _ in range(12):
            network.log_request("GET", "https://example.com/", 200)
        assert len(network.get_request_summary()["recent"]) == 10
        network.cleanup()


def test_summary_of_events_counts_requests_by_host_method_status_and_verdict() -> None:
    code = """
import urllib.error, urllib.request
def ask(url, data=None):
    try:
        print(urllib.request.urlopen(url, data, timeout=10).status)
    except urllib.error.HTTPError as error:
        print(error.code)
ask("http://127.0.0.1:{0}/one")
ask("http://127.0.0.1:{0}/two?key=x")
ask("http://192.0.2.1/", b"data")
"""
    with serving() as (port, _):
        policy = stockade.Policy.build(network_allowlist=[f"127.0.0.1:{port}"])
        with stockade.Sandbox(policy=policy) as sandbox:
            assert sandbox.run_code(code.format(port)).stdout == "200\n200\n403\n"
            summary = sandbox.events.summary()
    assert summary["requests"] == 3
    assert summary["by_host"] == {"127.0.0.1": 2, "192.0.2.1": 1}
    assert summary["by_method"] == {"GET": 2, "POST": 1}
    assert summary["by_status"] == {"200": 2, "403": 1}
    assert summary["by_verdict"] == {"allow": 2, "deny": 1}
    # Without the query, which may contain secrets.
    assert [it["path"] for it in summary["latest"]] == ["/", "/two", "/one"]


def test_https_requests_are_in_the_log_if_they_are_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-addext", "basicConstraints=critical,CA:FALSE"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    # The gate verifies the server by it.
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    code = """
import urllib.error, urllib.request
for path in ["/one?key=x", "/missing"]:
    try:
        print(urllib.request.urlopen("https://127.0.0.1:{}" + path, timeout=10).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
    with serving(certificate=certificate, key=key) as (port, seen):
        hosts = [f"127.0.0.1:{port}"]
        policy = NetworkPolicy(allow_outbound=True, allowed_hosts=hosts, inspect=True)
        network = ProxiedNetworkSandbox(policy)
        done = network.execute(code.format(port))
        assert done["stdout"] == "200\n200\n", done
        assert seen == ["/one?key=x", "/missing"]
        summary = network.get_request_summary()
        assert summary["by_method"] == {"GET": 2}
        assert summary["by_status"] == {"200": 2}
        urls = [it["url"] for it in summary["recent"]]
        # Without the query, which may contain secrets.
        assert urls == [f"https://127.0.0.1:{port}/one", f"https://127.0.0.1:{port}/missing"]
        network.cleanup()


def test_inspection_needs_named_hosts() -> None:
    with pytest.raises(ValueError, match="allowed_hosts"):
        NetworkSandbox(NetworkPolicy(allow_outbound=True, inspect=True))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FilesystemSandbox]:
    made = FilesystemSandbox(tmp_path / "agent_a", max_size_mb=1)
    yield made
    made.cleanup()
    made.cleanup()
    assert not made.base_path.exists()


def test_files_are_written_read_listed_and_deleted(files: FilesystemSandbox) -> None:
    assert files.write_file("a/b.txt", "täxt") and files.read_file("a/b.txt") == "täxt"
    assert files.read_file("a/../a/b.txt") == "täxt"
    assert (files.list_directory(), files.list_directory("a")) == (["a"], ["b.txt"])
    assert files.get_path("a/b.txt") == files.base_path / "a" / "b.txt"
    assert files.delete_file("a/b.txt") and not files.delete_file("a/b.txt")
    assert files.delete_file("a") and files.list_directory() == []
    with pytest.raises(FileNotFoundError):
        files.read_file("absent")
    files.write_file("plain", "x")
    with pytest.raises(NotADirectoryError):
        files.list_directory("plain")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "..", "../agent_a2/x"])
def test_paths_that_leave_are_refused(files: FilesystemSandbox, path: str) -> None:
    sibling = files.base_path.parent / "agent_a2"
    sibling.mkdir()
    (sibling / "x").write_text("theirs")
    acts: list[Any] = [files.get_path, files.read_file, files.list_directory, files.delete_file]
    for act in [*acts, lambda it: files.write_file(it, "mine")]:
        with pytest.raises(SecurityError):
            act(path)
    assert (sibling / "x").read_text() == "theirs"


def test_links_lead_nowhere(files: FilesystemSandbox) -> None:
    outside = files.base_path.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s3cret")
    (files.base_path / "dir").symlink_to(outside)
    (files.base_path / "file").symlink_to(outside / "secret")
    for path in ("dir/secret", "file"):
        with pytest.raises(SecurityError):
            files.read_file(path)
        with pytest.raises(SecurityError):
            files.write_file(path, "x")
        with pytest.raises(SecurityError):
            files.get_path(path)
    with pytest.raises(SecurityError):
        files.list_directory("dir")
    assert files.delete_file("file") and (outside / "secret").read_text() == "s3cret"
    os.mkfifo(files.base_path / "fifo")
    with pytest.raises(SecurityError):
        files.read_file("fifo")


def test_quota_counts_each_file_once(files: FilesystemSandbox) -> None:
    text = "x" * (900 << 10)
    for _ in range(3):
        assert files.write_file("big", text)
    assert files.total_written == len(text)
    with pytest.raises(ResourceExhaustedError):
        files.write_file("more", "x" * (200 << 10))
    assert files.delete_file("big") and files.write_file("more", "x" * (200 << 10))


def test_directories_of_the_system_are_no_sandbox() -> None:
    for path in ("/", "/etc", "/usr", "/root", "/home"):
        with pytest.raises(SecurityError):
            FilesystemSandbox(path)


def test_agents_have_files_and_code_of_their_own() -> None:
    manager = SandboxManager(SandboxConfig(max_execution_time_seconds=20))
    one, two = (manager.create_agent_environment(name) for name in ("a", "a2"))
    assert sorted(one) == ["agent_id", "filesystem", "working_directory"]
    assert one["working_directory"] == str(one["filesystem"].base_path)
    one["filesystem"].write_file("in.txt", "given")
    code = "text = open('in.txt').read(); open('out.txt', 'w').write(text.upper()); print(text)"
    done = manager.execute_in_sandbox("a", code)
    assert done["stdout"] == "given\n", done
    assert one["filesystem"].read_file("out.txt") == "GIVEN"
    reach = f"open('{one['working_directory']}/in.txt')"
    assert not manager.execute_in_sandbox("a2", reach)["success"]
    needed = manager.execute_in_sandbox("a", "print(1)", network_required=True)
    assert needed == {"success": False, "error": "Network access not allowed"}
    two["filesystem"].write_file("kept", "x")
    manager.cleanup_agent("a")
    assert not Path(one["working_directory"]).exists()
    assert two["filesystem"].read_file("kept") == "x"
    for name in ("../x", "a/b", ""):
        with pytest.raises(SecurityError):
            manager.create_agent_environment(name)
    manager.cleanup()
    assert not Path(two["working_directory"]).exists()


def test_manager_has_the_sandboxes_of_the_tutorial() -> None:
    manager = SandboxManager(SandboxConfig())
    assert manager.process_sandbox.execute("print(1)")["stdout"] == "1\n"
    manager.filesystem_sandbox.write_file("note", "kept")
    assert manager.filesystem_sandbox.read_file("note") == "kept"
    place = manager.filesystem_sandbox.base_path
    manager.create_agent_environment("a")
    manager.cleanup_agent("a")
    assert place.exists()
    manager.cleanup()
    assert not place.exists() and manager.process_sandbox._wall is None


def test_cleanup_ends_every_sandbox_before_it_removes_files() -> None:
    manager = SandboxManager()
    places = {name: manager.create_agent_environment(name)["filesystem"] for name in ("a", "b")}
    for name in places:
        assert manager.execute_in_sandbox(name, "print(1)")["success"]
    sandboxes = dict(manager._sandboxes)
    states: list[Any] = []
    real = places["a"].cleanup

    def fail() -> None:
        states.extend(it._wall for it in sandboxes.values())
        raise OSError("a cannot be removed")

    places["a"].cleanup = fail
    with pytest.raises(RuntimeError, match="a cannot be removed"):
        manager.cleanup()
    assert states == [None, None] and not places["b"].base_path.exists()
    done = sandboxes["b"].execute("print(1)")
    assert done["success"] is False and "removed" in done["error"]
    assert not places["b"].base_path.exists()
    real()
    assert manager.execute_in_sandbox("b", "print(2)")["stdout"] == "2\n"
    manager.cleanup()


def test_interrupted_code_has_no_grace() -> None:
    code = """
import signal, sys, time
def end(*_):
    open("ended", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
open("up", "w").close()
time.sleep(1000)
"""
    manager = SandboxManager()
    place = manager.create_agent_environment("a")["filesystem"].base_path

    def interrupt() -> None:
        assert eventually((place / "up").exists)
        signal.raise_signal(signal.SIGINT)

    # A caller of the tests that ignores the signal leaves Python without its handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        manager.execute_in_sandbox("a", code)
    thread.join(30)
    # The sandbox answers, so what the signal caused is done.
    assert manager.execute_in_sandbox("a", "print(1)")["success"]
    assert not (place / "ended").exists()
    manager.cleanup()


UNREADABLE = """
import os, tempfile
from stockade.simple import FilesystemSandbox, ResourceExhaustedError
files = FilesystemSandbox(tempfile.mkdtemp() + "/files")
files.write_file("d/e/x", "y")
for name in ("d/e", "d"):
    os.chmod(files.base_path / name, 0)
try:
    files.write_file("more", "y")
except ResourceExhaustedError:
    print("over")
os.chmod(files.base_path.parent, 0o300)
files.cleanup()
print(files.base_path.exists())
"""


def test_unreadable_directory_is_over_the_quota_and_is_removed() -> None:
    # Root reads everything, so this runs as an ordinary user, with an interpreter for all of them.
    is_root = os.geteuid() == 0
    python = "/usr/bin/python3" if is_root else sys.executable
    other: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if is_root else {}
    packages = str(Path(stockade.__file__).parents[1])
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        os.chmod(home, 0o777)
        variables = {"PYTHONPATH": packages, "TMPDIR": home, "HOME": home}
        words = [python, "-B", "-c", UNREADABLE]
        ended = subprocess.run(words, capture_output=True, text=True, env=variables, cwd=home, **other)
    assert ended.stdout == "over\nFalse\n", ended.stderr


def test_subprocess_sandbox_returns_output_and_errors() -> None:
    sandbox = SubprocessSandbox(timeout=2)
    assert sandbox.run("import sys; print(1); sys.stderr.write('e')") == ("1\n", "e")
    assert sandbox.run("while True: pass") == ("", "Timeout")
    _, errors = SubprocessSandbox(max_memory_mb=64).run("bytearray(300 << 20)")
    assert "memory" in errors.lower()


def test_safe_shell_reads_no_shell_syntax() -> None:
    assert safe_shell("echo one; echo two | cat $HOME") == ("one; echo two | cat $HOME\n", "")
    assert safe_shell(["echo", "a b"]) == ("a b\n", "")
    assert safe_shell("sleep 60", timeout=1) == ("", "Command timed out")
    assert "no-such-program" in safe_shell("no-such-program")[1]
    busy = "python3 -c 'while True: pass'"
    assert "max_cpu_seconds" in safe_shell(busy, timeout=20)[1]


def test_safe_shell_has_a_limit_of_memory() -> None:
    command = ["python3", "-c", "bytearray(200 << 20)"]
    assert safe_shell(command, max_memory_mb=512) == ("", "")
    assert "memory" in safe_shell(command)[1].lower()


SHARE = """
import time
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 1.5: pass
print((time.process_time() - used) / (time.monotonic() - began))
"""
"""Prints which share of a processor a busy program gets."""


def test_cpu_percent_is_the_share_of_a_processor(provider: str) -> None:
    def share(percent: float) -> float:
        with sandbox_of(provider, SandboxConfig(max_cpu_percent=percent)) as sandbox:
            return float(sandbox.execute(SHARE)["stdout"])

    assert share(20) < 0.35
    # Other programs of this machine may use the processors for a while.
    assert eventually(lambda: share(100) > 0.45, 60)


def test_defaults_are_those_of_the_tutorials() -> None:
    config = SandboxConfig()
    assert vars(config) == {
        "max_memory_mb": 512,
        "max_cpu_percent": 50.0,
        "max_execution_time_seconds": 60,
        "allowed_network": False,
        "allowed_filesystem_paths": None,
        "allowed_commands": None,
        "environment_variables": None,
    }
    assert vars(NetworkPolicy()) == {
        "allow_outbound": False,
        "allowed_hosts": None,
        "allowed_ports": None,
        "blocked_hosts": None,
        "max_connections": 10,
        "inspect": False,
    }
    shapes = {
        DockerSandbox: {"config": None, "image": "python:3.11-slim"},
        ProxiedNetworkSandbox: {"policy": None, "proxy_port": 8080},
        FilesystemSandbox: {"base_path": None, "max_size_mb": 100},
        SubprocessSandbox: {"max_cpu": 1, "max_memory_mb": 256, "timeout": 10},
        safe_shell: {"command": inspect.Parameter.empty, "timeout": 5, "max_memory_mb": 64},
    }
    for thing, expected in shapes.items():
        found = inspect.signature(thing).parameters.values()
        assert {it.name: it.default for it in found} == expected, thing


def test_code_runs_in_a_container_with_one_call(provider: str) -> None:
    only_docker(provider)
    assert run_code_in_sandbox("print(6 * 7)") == "42\n"
    assert run_code_in_sandbox("raise ValueError('no')").startswith("Error: ")
    assert run_code_in_sandbox("x = bytearray(400 << 20)").startswith("Error: ")
    assert float(run_code_in_sandbox(SHARE)) < 0.7
    with DockerSandbox(SandboxConfig(max_cpu_percent=100)) as whole:
        assert eventually(lambda: float(whole.execute(SHARE)["stdout"]) > 0.7, 60)


def test_missing_engine_is_an_error_and_never_another_wall(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    assert run_code_in_sandbox("print(1)").startswith("Error: ")
    done = DockerSandbox(SandboxConfig()).execute("print(1)")
    assert done["success"] is False and "absent.sock" in done["error"]


def test_one_sandbox_serves_many_threads() -> None:
    results: dict[int, str] = {}
    with ProcessSandbox(SandboxConfig()) as sandbox:

        def work(number: int) -> None:
            results[number] = sandbox.execute(f"print({number})")["stdout"]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert results == {number: f"{number}\n" for number in range(8)}

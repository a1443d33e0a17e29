"""What agt-sandbox claims and does not do, done. Each test is one claim."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agents import containers, make, only_docker, serving
from conftest import ROOT, eventually

import stockade
from agent_sandbox import (
    ACASandboxProvider,
    DockerSandboxProvider,
    HyperLightSandboxProvider,
    IsolationRuntime,
    NonoSandboxProvider,
    SandboxConfig,
    SandboxStateManager,
    SessionStatus,
)
from agent_sandbox._hardening import is_protected_path
from agent_sandbox.code_scanner import SandboxCodeViolation, enforce_no_subprocess_execution


LABEL = "agent-sandbox.managed=true"


def run(agents: Any, code: str, *, context: Any = None, **options: Any) -> Any:
    """The result of code in a session of its own."""
    made = agents.create_session("a", **options)
    try:
        return agents.execute_code("a", made.session_id, code, context=context).result
    finally:
        agents.destroy_session("a", made.session_id)


def test_docker_session_is_created_on_a_real_engine_with_the_label(provider: str) -> None:
    only_docker(provider)
    before, agents = containers(LABEL), make("docker")
    made = agents.create_session("a")
    assert len(containers(LABEL) - before) == 1
    shown = "import os; print(os.getuid(), os.getcwd())"
    assert agents.execute_code("a", made.session_id, shown).result.stdout == "65534 /workspace\n"
    agents.destroy_session("a", made.session_id)
    assert eventually(lambda: not containers(LABEL) - before)


def test_failed_docker_session_leaves_no_container(provider: str) -> None:
    only_docker(provider)
    before = containers(LABEL)
    for options, config in [
        ({"image": "no-such-image:1"}, SandboxConfig()),
        ({}, SandboxConfig(runtime="kata-runtime")),
    ]:
        with pytest.raises((RuntimeError, ValueError), match="no-such-image|kata"):
            make("docker", **options).create_session("a", config=config)
    assert eventually(lambda: not containers(LABEL) - before)


@pytest.mark.parametrize("limits", [{}, {"max_cpu": 0.5}, {"max_memory_mb": 128}])
def test_policy_needs_neither_cpu_nor_memory(provider: str, limits: dict[str, Any]) -> None:
    policy = {"defaults": {"action": "allow", **limits}}
    assert run(make(provider), "print(1)", policy=policy).stdout == "1\n"


def test_network_list_opens_no_other_host(provider: str) -> None:
    code = """
import socket, urllib.request
try:
    print(urllib.request.urlopen({!r}, timeout=10).status)
except OSError as error:
    print("refused")
try:
    socket.create_connection(("127.0.0.1", {}), timeout=5)
    print("connected")
except OSError:
    print("no route")
"""
    with serving() as (open_port, _), serving() as (closed_port, seen):
        policy = {"defaults": {"action": "allow"}, "network_allowlist": [f"127.0.0.1:{open_port}"]}
        allowed = code.format(f"http://127.0.0.1:{open_port}/", closed_port)
        assert run(make(provider), allowed, policy=policy).stdout == "200\nno route\n"
        denied = code.format(f"http://127.0.0.1:{closed_port}/", closed_port)
        assert run(make(provider), denied, policy=policy).stdout == "refused\nno route\n"
        assert seen == []


def test_tools_are_called(provider: str) -> None:
    calls: list[int] = []

    def double(number: int) -> int:
        calls.append(number)
        return number * 2

    assert run(make(provider, tools={"double": double}), "print(double(21))").stdout == "42\n"
    assert calls == [21]


def test_timeout_and_network_default_of_the_policy_are_enforced(provider: str) -> None:
    policy: dict[str, Any] = {"defaults": {"action": "allow", "timeout_seconds": 1}}
    result = run(make(provider), "import time; time.sleep(60)", policy=policy)
    assert result.killed and result.kill_reason == "Execution exceeded timeout of 1s"
    config = SandboxConfig(network_enabled=True)
    policy = {"defaults": {"action": "allow", "network_default": "deny"}}
    agents = make(provider)
    made = agents.create_session("a", policy=policy, config=config)
    assert not agents._registry.find("a", made.session_id).policy.why(host="example.com")
    agents.destroy_session("a", made.session_id)
    made = agents.create_session("a", config=config)
    judged = agents._registry.find("a", made.session_id).policy
    assert judged.why(host="example.com") and not judged.why(host="10.0.0.1")
    agents.destroy_session("a", made.session_id)


def test_timeout_is_in_time_runs_code_once_and_keeps_the_workspace(provider: str) -> None:
    agents = make(provider)
    made = agents.create_session("a", config=SandboxConfig(timeout_seconds=2))
    code = "open('runs', 'a').write('x')\nimport time\nprint('up', flush=True)\ntime.sleep(60)"
    start = time.monotonic()
    result = agents.execute_code("a", made.session_id, code).result
    assert 2 <= time.monotonic() - start < 6
    assert result.killed and not result.success and result.stdout == "up\n"
    left = agents.execute_code("a", made.session_id, "print(open('runs').read())").result
    assert left.stdout == "x\n"
    agents.destroy_session("a", made.session_id)


def test_state_has_what_is_on_tmpfs_and_comes_back_in_any_session_of_the_agent(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_docker(provider)
    monkeypatch.setenv("STOCKADE_STORE", str(tmp_path / "store"))
    agents = make("docker")
    made = agents.create_session("a")
    write = "open('f', 'w').write('kept'); open('/tmp/t', 'w').write('in tmp')"
    assert agents.execute_code("a", made.session_id, write).result.success
    state = agents.save_state("a", made.session_id, "s")
    assert (state.agent_id, state.name, state.image_tag) == ("a", "s", "agent-a/s")
    spoil = "import os; os.remove('f'); open('/tmp/t', 'w').write('spoiled'); open('g', 'w')"
    assert agents.execute_code("a", made.session_id, spoil).result.success
    agents.restore_state("a", made.session_id, "s")
    read = "import os; print(open('f').read(), open('/tmp/t').read(), os.path.exists('g'))"
    assert agents.execute_code("a", made.session_id, read).result.stdout == "kept in tmp False\n"
    # In a later session, by the stable reference, through the manager.
    agents.destroy_session("a", made.session_id)
    later = agents.create_session("a")
    states = SandboxStateManager(agents)
    states.restore("a", later.session_id, state.image_tag)
    assert agents.execute_code("a", later.session_id, read).result.stdout == "kept in tmp False\n"
    # A second state of the same name replaces the first, whose reference leads to it.
    assert agents.execute_code("a", later.session_id, "open('f', 'w').write('new')").result.success
    second = agents.save_state("a", later.session_id, "s")
    assert states.list_checkpoints("a") == [second]
    states.restore("a", later.session_id, state.image_tag)
    assert agents.execute_code("a", later.session_id, read).result.stdout == "new in tmp False\n"
    agents.save_state("a", later.session_id, "s")
    assert [it.image_tag for it in states.list_checkpoints("a")] == ["agent-a/s"]
    assert agents.list_checkpoints("b") == []
    with pytest.raises(ValueError, match="not a state of agent 'b'"):
        other = agents.create_session("b")
        agents.restore_state("b", other.session_id, state.image_tag)
    with pytest.raises(RuntimeError, match="no checkpoint agent-a/other"):
        agents.restore_state("a", later.session_id, "other")
    with pytest.raises(ValueError, match="not a valid name"):
        agents.save_state("a", later.session_id, "../s")
    agents.delete_checkpoint("a", "s")
    assert agents.list_checkpoints("a") == []
    with pytest.raises(KeyError):
        agents.delete_checkpoint("a", "s")
    with pytest.raises(RuntimeError, match="No active session"):
        agents.save_state("a", "00000000", "s")
    agents.destroy_session("a", later.session_id)
    agents.destroy_session("b", other.session_id)


def test_state_stays_when_the_one_that_would_replace_it_cannot_be_kept(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_docker(provider)
    monkeypatch.setenv("STOCKADE_STORE", str(tmp_path / "store"))
    agents = make("docker")
    made, other = agents.create_session("a"), agents.create_session("a")
    assert agents.execute_code("a", made.session_id, "open('f', 'w').write('old')").result.success
    agents.save_state("a", made.session_id, "s")
    agents._registry.find("a", made.session_id).sandbox.close()
    with pytest.raises(RuntimeError):
        agents.save_state("a", made.session_id, "s")
    agents.restore_state("a", other.session_id, "s")
    read = "print(open('f').read())"
    assert agents.execute_code("a", other.session_id, read).result.stdout == "old\n"
    assert [it.name for it in agents.list_checkpoints("a")] == ["s"]
    # A store that cannot be read is an error of the API too.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STOCKADE_STORE", str(tmp_path / "file"))
    for act in (
        lambda: agents.list_checkpoints("a"),
        lambda: agents.delete_checkpoint("a", "s"),
        lambda: agents.save_state("a", other.session_id, "s"),
    ):
        with pytest.raises(RuntimeError):
            act()
    agents.destroy_session("a", other.session_id)
    agents.destroy_session("a", made.session_id)


def test_limits_after_a_restore_are_those_of_the_session(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_docker(provider)
    monkeypatch.setenv("STOCKADE_STORE", str(tmp_path / "store"))
    agents = make("docker")
    with serving() as (port, seen):
        reach = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/').status)"
        spend = "print(len(bytearray(200 << 20)))"
        wait = "import time; time.sleep(8); print('late')"
        wide_one = {"action": "allow", "max_memory_mb": 512, "timeout_seconds": 60}
        hosts = [f"127.0.0.1:{port}"]
        wide = agents.create_session("a", policy={"defaults": wide_one, "network_allowlist": hosts})
        narrow_one = {"action": "allow", "max_memory_mb": 96, "timeout_seconds": 5}
        narrow = agents.create_session("a", policy={"defaults": narrow_one})
        for number, session_id in enumerate((wide.session_id, narrow.session_id)):
            write = f"open('f', 'w').write('{number}')"
            assert agents.execute_code("a", session_id, write).result.success
            agents.save_state("a", session_id, f"s{number}")
        # Each gets the state of the other one, and keeps its own limits.
        for own, other, session_id in ((0, 1, wide.session_id), (1, 0, narrow.session_id)):
            agents.restore_state("a", session_id, f"s{other}")
            results = {
                code: agents.execute_code("a", session_id, code).result
                for code in ("print(open('f').read())", spend, wait, reach)
            }
            read, spent, waited, reached = results.values()
            assert read.stdout == f"{other}\n"
            is_wide = own == 0
            assert (spent.stdout == "209715200\n") is is_wide, spent
            assert (waited.stdout == "late\n") is is_wide, waited
            assert waited.killed is not is_wide
            assert (reached.stdout == "200\n") is is_wide, reached
        assert seen == ["/"]
        agents.destroy_session("a", wide.session_id)
        agents.destroy_session("a", narrow.session_id)


def test_context_does_not_replace_the_judged_code(provider: str) -> None:
    rule = {
        "name": "no-eval",
        "condition": {"field": "code", "operator": "contains", "value": "eval("},
        "action": "deny",
    }
    policy = {"defaults": {"action": "allow"}, "rules": [rule]}
    agents = make(provider)
    assert run(agents, "print(1)", policy=policy, context={"code": "eval(1)"}).stdout == "1\n"
    with pytest.raises(PermissionError, match="Policy denied"):
        run(agents, "eval('1')", policy=policy, context={"code": "harmless", "action": "none"})


def test_tool_list_is_consulted_for_the_tool_of_a_context(provider: str) -> None:
    agents = make(provider, tools={"search": lambda query: query})
    policy = {"defaults": {"action": "allow"}, "tool_allowlist": ["search"]}
    assert run(agents, "print(1)", policy=policy, context={"tool_name": "search"}).success
    with pytest.raises(PermissionError, match="Policy denied: .*delete"):
        run(agents, "print(1)", policy=policy, context={"tool_name": "delete"})
    rule = {
        "name": "no-delete",
        "condition": {"field": "tool_name", "operator": "eq", "value": "delete"},
        "action": "deny",
    }
    policy = {"defaults": {"action": "allow"}, "rules": [rule]}
    assert run(agents, "print(1)", policy=policy, context={"tool_name": "search"}).success
    with pytest.raises(PermissionError, match="no-delete"):
        run(agents, "print(1)", policy=policy, context={"tool_name": "delete"})


def test_session_is_judged_without_the_policy_package() -> None:
    code = """
import sys
sys.modules["pydantic"] = None
from agent_sandbox import NonoSandboxProvider
try:
    NonoSandboxProvider().run_once("a", "print('ran')", policy={"defaults": {"action": "deny"}})
except PermissionError as error:
    print("denied")
"""
    words = [sys.executable, "-c", code]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "denied\n", ended.stderr


def test_missing_hardened_image_is_refused_where_it_is_required(provider: str) -> None:
    with pytest.raises(ValueError, match="cannot be used together"):
        DockerSandboxProvider(image="x", require_hardened_image=True)
    only_docker(provider)
    if stockade.has_image(DockerSandboxProvider.HARDENED_IMAGE_TAG):
        agents = DockerSandboxProvider(require_hardened_image=True)
        assert run(agents, "print(1)").stdout == "1\n"
    else:
        with pytest.raises(RuntimeError, match="python-minimal-path"):
            DockerSandboxProvider(require_hardened_image=True)
        with pytest.raises(RuntimeError, match="stockade image build --hardened"):
            DockerSandboxProvider().ensure_image(DockerSandboxProvider.HARDENED_IMAGE_TAG)
        with pytest.raises(RuntimeError, match="docker pull no-such-image:1"):
            DockerSandboxProvider().ensure_image("no-such-image:1")
        DockerSandboxProvider().ensure_image("python:3.11-slim")


def test_hardened_image_is_used_and_denies_cloud_tools(provider: str) -> None:
    only_docker(provider)
    tag = DockerSandboxProvider.HARDENED_IMAGE_TAG
    recipe = ROOT / "docker" / "Dockerfile.sandbox"
    build = ["docker", "build", "--quiet", "--network", "none", "--tag", tag]
    subprocess.run([*build, "--file", str(recipe), str(recipe.parent)], check=True, timeout=300)
    try:
        for agents in (DockerSandboxProvider(require_hardened_image=True), DockerSandboxProvider()):
            agents.ensure_image()
            made = agents.create_session("a")
            try:
                denied = agents.run("a", ["az", "account", "list"], session_id=made.session_id)
            finally:
                agents.destroy_session("a", made.session_id)
            assert (denied.success, denied.exit_code) == (False, 127), denied
            assert denied.stderr.startswith("az: command not found"), denied
            result = run(agents, "import os; print(os.environ['PATH'])")
            assert result.stdout == "/usr/local/sandbox-bin\n", result
    finally:
        subprocess.run(["docker", "rmi", "--force", tag], check=True, timeout=60)
    # Another image under the same name is not accepted.
    subprocess.run(["docker", "tag", "python:3.11-slim", tag], check=True, timeout=60)
    try:
        with pytest.raises(RuntimeError, match="not the hardened one"):
            DockerSandboxProvider(require_hardened_image=True)
        assert run(DockerSandboxProvider(), "print(1)").stdout == "1\n"
    finally:
        subprocess.run(["docker", "rmi", "--no-prune", tag], check=True, timeout=60)


def test_code_of_a_megabyte_runs(provider: str) -> None:
    code = f"text = {'x' * (1 << 20)!r}\nprint(len(text))"
    assert run(make(provider), code).stdout == f"{1 << 20}\n"


def test_cut_output_has_the_marker_and_other_output_does_not(provider: str) -> None:
    agents, marker = make(provider), "\n[...output truncated at byte limit]\n"
    config = SandboxConfig(output_max_bytes=100)
    result = run(agents, "print('x' * 1000)", config=config)
    assert result.stdout == "x" * 100 + marker and result.stderr == ""
    assert run(agents, "print('x')", config=config).stdout == "x\n"


def test_session_of_a_killed_process_is_swept(provider: str) -> None:
    only_docker(provider)
    code = """
import time
from agents import make
agents = make("docker")
agents.create_session("a")
print("made", flush=True)
time.sleep(1000)
"""
    words, here = [sys.executable, "-c", code], str(Path(__file__).parent)
    before = containers(LABEL)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=here) as owner:
        try:
            assert owner.stdout is not None and owner.stdout.readline() == "made\n"
            assert len(containers(LABEL) - before) == 1
        finally:
            owner.kill()
    assert eventually(lambda: not containers(LABEL) - before)


def test_session_whose_container_is_gone_has_failed(provider: str) -> None:
    only_docker(provider)
    before, agents = containers(LABEL), make("docker")
    made = agents.create_session("a")
    (container,) = containers(LABEL) - before
    subprocess.run(["docker", "rm", "--force", container], check=True, capture_output=True)
    done = agents.execute_code("a", made.session_id, "print(1)")
    assert not done.result.success and done.result.killed
    assert agents.get_session_status("a", made.session_id) is SessionStatus.FAILED
    agents.destroy_session("a", made.session_id)
    assert agents.get_session_status("a", made.session_id) is SessionStatus.DESTROYED


def test_absent_runtime_is_reported_as_absent(provider: str) -> None:
    only_docker(provider)
    agents = DockerSandboxProvider(runtime=IsolationRuntime.KATA)
    assert not agents.is_available() and "kata" in str(agents.unavailable_reason)
    with pytest.raises(RuntimeError, match="kata"):
        agents.create_session("a")


def test_absent_engine_is_reported_as_absent(tmp_path: Path) -> None:
    agents = DockerSandboxProvider(docker_url=f"unix://{tmp_path}/absent.sock")
    assert not agents.is_available() and agents.unavailable_reason
    assert agents.runtime is IsolationRuntime.AUTO and not agents.kernel_isolated
    with pytest.raises(RuntimeError, match="Docker daemon is not available"):
        agents.create_session("a")
    with pytest.raises(RuntimeError, match="Docker daemon is not available"):
        agents.ensure_image("x")


@pytest.mark.parametrize("path", ["/", "/etc", "/run", "/root", "/var/lib/docker", "/proc/1", "/home"])
def test_directories_of_the_system_are_not_mounted(path: str, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    for asked in (path, path + "/", str(link)):
        assert is_protected_path(asked), asked
        for config in (SandboxConfig(input_dir=asked), SandboxConfig(output_dir=asked)):
            with pytest.raises(ValueError, match="protected system directory"):
                NonoSandboxProvider().create_session("a", config=config)
    assert not is_protected_path(str(tmp_path))


def test_hyperlight_says_why_it_is_unavailable_and_never_uses_another_wall() -> None:
    agents = HyperLightSandboxProvider(backend="wasm", tools={"f": lambda query: query})
    assert (agents.backend, agents.module) == ("wasm", "python_guest")
    assert not agents.is_available() and "hyperlight" in str(agents.unavailable_reason)
    with pytest.raises(RuntimeError, match="hyperlight"):
        agents.create_session("a")
    with pytest.raises(RuntimeError, match="No active session"):
        agents.execute_code("a", "s", "while True: pass")
    with pytest.raises(RuntimeError, match="No active session"):
        agents.snapshot_session("a", "s")
    with pytest.raises(RuntimeError, match="No active session"):
        agents.execute_code("a", "s", "#" * (11 << 20))
    with pytest.raises(ValueError, match="Unknown Hyperlight backend"):
        HyperLightSandboxProvider(backend="paper")


def test_azure_session_that_cannot_be_made_is_never_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_SUBSCRIPTION_ID", raising=False)
    with ACASandboxProvider("group", "agents", region="eastus2") as agents:
        assert not agents.is_available() and "subscription" in str(agents.unavailable_reason)
        with pytest.raises(RuntimeError, match="ACASandboxProvider is not available"):
            agents.create_session("a", policy={"network_allowlist": ["example.com"]})
    with pytest.raises(ValueError, match="sandbox_group"):
        ACASandboxProvider("group", "a/b")


def test_wall_without_containers_stops_udp_and_unix_sockets(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(type=socket.SOCK_DGRAM) as udp:
        server.bind(path)
        server.listen()
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(2)
        os.chmod(path, 0o666)
        code = f"""
import socket
for kind, address in [(socket.AF_UNIX, {path!r}), (socket.AF_UNIX, "/var/run/docker.sock")]:
    try:
        socket.socket(kind).connect(address)
        print("connected")
    except OSError:
        print("refused")
try:
    socket.socket(type=socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", {udp.getsockname()[1]}))
except OSError:
    pass
"""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        assert run(NonoSandboxProvider(), code).stdout == "refused\nrefused\n"
        with pytest.raises(socket.timeout):
            udp.recv(10)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(b"out", udp.getsockname())
        assert udp.recv(10) == b"out"


def test_memory_limit_is_enforced(provider: str) -> None:
    code = "x = bytearray(300 << 20); print(len(x))"
    assert run(make(provider), code).success
    result = run(make(provider), code, config=SandboxConfig(memory_mb=64))
    assert not result.success and (result.killed or "MemoryError" in result.stderr)


def test_scanner_names_each_call_that_starts_a_program() -> None:
    code = "import os as o, subprocess\nfrom subprocess import run as r\no.system('x')\nr(['x'])\n"
    code += "__import__('os').popen('x'); subprocess.call('x')\n"
    with pytest.raises(SandboxCodeViolation) as raised:
        enforce_no_subprocess_execution(code)
    found = [(it.line, it.pattern) for it in raised.value.violations]
    assert found == [(3, "os.system"), (4, "subprocess.run"), (5, "os.popen"), (5, "subprocess.call")]
    assert str(raised.value) == (
        "Sandbox code denied: potential subprocess execution "
        "(line 3:1 os.system; line 4:1 subprocess.run; line 5:1 os.popen; +1 more)"
    )
    enforce_no_subprocess_execution("import os\nprint(os.getcwd())\nnot python")

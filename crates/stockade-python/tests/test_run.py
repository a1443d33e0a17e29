"""Running code and commands."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest
from conftest import eventually

from stockade import (
    ClosedError,
    DeniedError,
    ExitError,
    InputClosedError,
    InvalidError,
    LimitExceededError,
    NotStartedError,
    OutOfMemoryError,
    Policy,
    Sandbox,
    TimedOutError,
    UnavailableError,
)


def test_code_returns_its_output_and_exit_code(sandbox: Sandbox) -> None:
    ended = sandbox.run_code("import sys; print(1); print('e', file=sys.stderr); sys.exit(3)")
    assert (ended.stdout, ended.stderr, ended.exit_code) == ("1\n", "e\n", 3)
    assert (ended.outcome, ended.ok) == ("exited", False)


def test_code_in_bash_gets_arguments_input_variables_and_directory(sandbox: Sandbox) -> None:
    code = 'read line; echo "$1 $line $WORD $PWD"'
    ended = sandbox.run_code(
        code, language="bash", arguments=["one"], stdin="two\n", envs={"WORD": "three"}, cwd="/tmp"
    )
    assert ended.stdout == "one two three /tmp\n"


def test_command_is_a_list_of_words_or_a_line_for_the_shell(sandbox: Sandbox) -> None:
    assert sandbox.run(["echo", "$HOME *"]).stdout == "$HOME *\n"
    assert sandbox.run("echo a | tr a b; exit 4").exit_code == 4


def test_files_of_one_program_are_there_for_the_next(sandbox: Sandbox) -> None:
    sandbox.run_code("open('/workspace/note', 'w').write('kept')")
    assert sandbox.run(["cat", "/workspace/note"]).stdout == "kept"


def test_check_raises_the_exit_with_the_last_line_of_the_errors(sandbox: Sandbox) -> None:
    with pytest.raises(ExitError, match="exited with code 1: ValueError: no") as raised:
        sandbox.run_code("raise ValueError('no')", check=True)
    assert "Traceback" in raised.value.execution.stderr


def test_signal_that_kills_a_program_is_named(sandbox: Sandbox) -> None:
    assert sandbox.run("kill -TERM $$").signal == "SIGTERM"


def test_output_that_is_not_text_is_kept_as_bytes(sandbox: Sandbox) -> None:
    ended = sandbox.run_code(r"import sys; sys.stdout.buffer.write(b'\xff\x00')")
    assert ended.stdout_bytes == b"\xff\x00"
    assert ended.stdout == "\ufffd\x00"


def test_receivers_get_output_as_it_arrives(sandbox: Sandbox) -> None:
    out: list[str] = []
    errors: list[str] = []
    code = r"import sys; sys.stdout.buffer.write('ä'.encode()*50000); sys.stderr.write('e')"
    ended = sandbox.run_code(code, on_stdout=out.append, on_stderr=errors.append)
    assert ("".join(out), "".join(errors)) == ("ä" * 50000, "e")
    assert ended.stdout == "ä" * 50000


def test_exception_of_a_receiver_ends_the_program_and_is_raised(sandbox: Sandbox) -> None:
    def refuse(text: str) -> None:
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="x"):
        sandbox.run("echo x; sleep 1000", on_stdout=refuse)
    assert sandbox.run(["true"]).ok


def test_started_program_is_read_line_by_line_while_it_runs(sandbox: Sandbox) -> None:
    with sandbox.start("echo one; echo two; sleep 1000") as handle:
        lines = iter(handle.stdout)
        assert (next(lines), next(lines), handle.running) == ("one\n", "two\n", True)
    assert not handle.running


def test_started_program_receives_input_until_it_is_closed(sandbox: Sandbox) -> None:
    handle = sandbox.start(["cat"], stdin=True)
    handle.send_stdin("a\n")
    assert next(iter(handle.stdout)) == "a\n"
    handle.send_stdin(b"b")
    handle.close_stdin()
    ended = handle.wait(check=True)
    assert ended.stdout == "a\nb"
    with pytest.raises(InputClosedError):
        handle.send_stdin("c")


def test_readers_of_both_streams_each_get_what_is_theirs(sandbox: Sandbox) -> None:
    program = "read go; echo question >&2; read answer; echo done"
    with sandbox.start(program, stdin=True) as handle:
        seen: dict[str, list[str]] = {"stdout": [], "stderr": []}

        def read(name: str) -> None:
            for line in getattr(handle, name):
                seen[name].append(line)

        readers = [threading.Thread(target=read, args=(name,), daemon=True) for name in seen]
        for reader in readers:
            reader.start()
        handle.send_stdin("go\n")
        assert eventually(lambda: seen["stderr"] == ["question\n"])
        handle.send_stdin("yes\n")
        assert eventually(lambda: seen["stdout"] == ["done\n"])


def test_started_program_is_signalled_and_killed(sandbox: Sandbox) -> None:
    handle = sandbox.start("trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.05; done")
    assert next(iter(handle.stdout)) == "ready\n"
    handle.send_signal(signal.SIGUSR1)
    assert handle.wait().exit_code == 7
    killed = sandbox.start(["sleep", "1000"])
    killed.kill()
    assert killed.wait().signal == "SIGKILL"


def test_program_whose_handle_is_gone_continues(sandbox: Sandbox) -> None:
    handle = sandbox.start("echo begin; head -c 300000 /dev/zero; echo done > /workspace/done")
    del handle
    ended = sandbox.run("until test -e /workspace/done; do sleep 0.05; done", timeout=20)
    assert ended.ok


def test_code_that_a_rule_denies_raises_the_denial(provider: str) -> None:
    code = "import os; print(os.system('true'))"
    with Sandbox(provider=provider) as free:
        assert free.run_code(code).stdout == "0\n"
    rule = {
        "name": "no-shell",
        "condition": {"field": "code", "operator": "contains", "value": "os.system"},
        "action": "deny",
        "message": "use a tool",
    }
    seen = []
    policy = Policy.build(defaults={"action": "allow"}, rules=[rule])
    with Sandbox(policy, provider=provider, on_denial=seen.append) as strict:
        with pytest.raises(DeniedError, match="use a tool") as raised:
            strict.run_code(code)
        assert "no-shell" in raised.value.denial.rule
        assert seen == [raised.value.denial]
        assert strict.run_code("print(2)").stdout == "2\n"


def test_program_beyond_its_time_raises_with_its_output(sandbox: Sandbox) -> None:
    assert sandbox.run("echo a; sleep 0.1", timeout=30).ok
    with pytest.raises(TimedOutError) as raised:
        sandbox.run("echo a; sleep 1000", timeout=0.5)
    assert raised.value.execution.stdout == "a\n"
    assert isinstance(raised.value, TimeoutError)


def test_program_beyond_its_memory_raises(provider: str) -> None:
    code = "x = bytearray(200 << 20); print(len(x))"
    with Sandbox(provider=provider) as free:
        assert free.run_code(code).ok
    policy = {"defaults": {"max_memory_mb": 64}}
    with Sandbox(policy, provider=provider) as small:
        try:
            ended = small.run_code(code)
        except OutOfMemoryError as error:
            assert isinstance(error, LimitExceededError)
        else:
            # A host without a memory cgroup refuses the memory instead.
            assert "MemoryError" in ended.stderr


def test_missing_program_raises_that_it_did_not_start(sandbox: Sandbox) -> None:
    with pytest.raises(NotStartedError, match="no-such-program"):
        sandbox.run(["no-such-program"])
    with pytest.raises(NotStartedError):
        sandbox.start(["no-such-program"]).wait()


def test_unknown_wall_names_the_known_ones() -> None:
    with pytest.raises(UnavailableError) as raised:
        Sandbox(provider="paper")
    assert "native" in raised.value.remedy


def test_unknown_language_and_bad_variable_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidError, match="cobol"):
        sandbox.run_code("x", language="cobol")
    with pytest.raises(InvalidError, match="LD_PRELOAD"):
        sandbox.run(["true"], envs={"LD_PRELOAD": "x"})
    with pytest.raises(InvalidError):
        sandbox.run([])


def test_closed_sandbox_refuses_programs_and_closes_again() -> None:
    sandbox = Sandbox()
    sandbox.close()
    sandbox.close()
    with pytest.raises(ClosedError):
        sandbox.run(["true"])


def test_host_files_are_not_visible_until_they_are_mounted(provider: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    policy = {"filesystem": {"read": [{"host": str(secret), "guest": "/input/secret"}]}}
    with Sandbox(policy, provider=provider) as mounted:
        assert mounted.run(["cat", "/input/secret"]).stdout == "s3cret"
    with Sandbox(provider=provider) as closed:
        assert closed.run(["cat", str(secret)]).exit_code == 1


def test_wall_names_its_controls_and_counts_its_usage(sandbox: Sandbox, provider: str) -> None:
    wall = sandbox.wall
    assert wall.provider == provider
    assert {"hidden_host", "pids"} & {control["control"] for control in wall.controls} or wall.controls
    sandbox.run(["true"])
    assert sandbox.usage().tool_calls == 0


def test_paused_programs_stop_until_they_are_resumed(provider: str) -> None:
    code = "import time\nwhile True: print(time.monotonic(), flush=True); time.sleep(0.01)"
    times: list[float] = []
    with Sandbox(provider=provider) as sandbox:
        handle = sandbox.start_code(code)

        def read() -> None:
            for line in handle.stdout:
                times.append(float(line))

        reader = threading.Thread(target=read)
        reader.start()
        assert eventually(lambda: len(times) > 5)
        sandbox.pause()
        # Lines that were written before still arrive.
        last = -1

        def is_silent() -> bool:
            nonlocal last
            last, before = len(times), last
            time.sleep(0.2)
            return last == before == len(times)

        assert eventually(is_silent)
        time.sleep(1.0)
        assert len(times) == last
        sandbox.resume()
        assert eventually(lambda: len(times) > last + 5)
        handle.kill()
        reader.join(20)
        assert not reader.is_alive()
        # Inside no line was printed either while the program was paused.
        assert times[last] - times[last - 1] > 1.0
        assert sandbox.run(["true"]).ok

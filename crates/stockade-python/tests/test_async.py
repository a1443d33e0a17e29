"""Sandboxes in an event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Coroutine

import pytest

from stockade import AsyncSandbox, ClosedError, ExitError, NotStartedError


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


def test_async_sandbox_runs_code_and_commands_with_receivers(provider: str) -> None:
    async def work() -> None:
        seen: list[str] = []

        async def receive(text: str) -> None:
            await asyncio.sleep(0)
            seen.append(text)

        async with AsyncSandbox(provider=provider) as sandbox:
            assert (await sandbox.run_code("print(1)")).stdout == "1\n"
            await sandbox.run(["echo", "two"], on_stdout=receive)
            assert "".join(seen) == "two\n"
            with pytest.raises(ExitError):
                await sandbox.run("exit 1", check=True)
            with pytest.raises(NotStartedError):
                await (await sandbox.start(["no-such-program"])).wait()

    run(work())


def test_async_handle_streams_both_ways(provider: str) -> None:
    async def work() -> None:
        async with AsyncSandbox(provider=provider) as sandbox:
            async with await sandbox.start(["cat"], stdin=True) as handle:
                await handle.send_stdin("a\nb\n")
                await handle.close_stdin()
                assert [line async for line in handle.stdout] == ["a\n", "b\n"]
                assert (await handle.wait()).ok

    run(work())


def test_readers_of_both_streams_each_get_what_is_theirs(provider: str) -> None:
    async def work() -> None:
        program = "read go; echo question >&2; read answer; echo done"
        async with AsyncSandbox(provider=provider) as sandbox:
            async with await sandbox.start(program, stdin=True) as handle:
                out = asyncio.create_task(handle.stdout.read())
                asked: asyncio.Queue[str] = asyncio.Queue()

                async def read() -> None:
                    async for line in handle.stderr:
                        asked.put_nowait(line)

                errors = asyncio.create_task(read())
                await handle.send_stdin("go\n")
                assert await asyncio.wait_for(asked.get(), 20) == "question\n"
                await handle.send_stdin("yes\n")
                assert await asyncio.wait_for(out, 20) == "done\n"
                await asyncio.wait_for(errors, 20)

    run(work())


def test_output_is_not_lost_with_a_reader_that_is_cancelled(provider: str) -> None:
    async def work() -> None:
        async with AsyncSandbox(provider=provider) as sandbox:
            async with await sandbox.start("read go; echo here", stdin=True) as handle:
                reader = asyncio.create_task(handle.stdout.read())
                await asyncio.sleep(0)
                reader.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reader
                await handle.send_stdin("go\n")
                assert await asyncio.wait_for(handle.stdout.read(), 20) == "here\n"

    run(work())


def test_cancelled_task_ends_its_program_and_not_the_sandbox(provider: str) -> None:
    async def work() -> None:
        async with AsyncSandbox(provider=provider) as sandbox:
            mark = "touch /workspace/started; sleep 1000; touch /workspace/late"
            task = asyncio.create_task(sandbox.run(mark))
            waits = "until test -e /workspace/started; do sleep 0.02; done"
            await sandbox.run(waits)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            ended = [event async for event in sandbox.events() if event["kind"] == "execution_ended"]
            assert [event["body"]["outcome"] for event in ended] == ["exited", "cancelled"]
            assert (await sandbox.run("! pgrep sleep")).ok

    run(work())


def test_timeout_of_asyncio_ends_the_program() -> None:
    async def work() -> None:
        async with AsyncSandbox() as sandbox:
            began = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sandbox.run("echo x; sleep 1000"), 0.3)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sandbox.run("echo x; sleep 1000", on_stdout=len), 0.3)
            assert time.monotonic() - began < 20
            assert (await sandbox.run(["true"])).ok

    run(work())


def test_thousand_tasks_at_once_get_their_own_answers() -> None:
    async def work() -> None:
        async with AsyncSandbox() as sandbox:

            async def one(number: int) -> str:
                return (await sandbox.run(["echo", str(number)])).stdout

            outputs = await asyncio.gather(*(one(number) for number in range(1000)))
        assert outputs == [f"{number}\n" for number in range(1000)]

    run(work())


def test_sandbox_before_open_and_after_close_refuses_programs() -> None:
    async def work() -> None:
        sandbox = AsyncSandbox()
        with pytest.raises(ClosedError):
            await sandbox.run(["true"])
        opened = await AsyncSandbox.create()
        await opened.close()
        with pytest.raises(ClosedError):
            await opened.run(["true"])

    run(work())


def test_sandbox_is_ended_although_its_block_is_cancelled() -> None:
    async def work() -> None:
        entered = asyncio.Event()
        kept: list[AsyncSandbox] = []

        async def block() -> None:
            async with AsyncSandbox() as sandbox:
                kept.append(sandbox)
                entered.set()
                await sandbox.run(["sleep", "1000"])

        task = asyncio.create_task(block())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ClosedError):
            await kept[0].run(["true"])

    run(work())


def test_events_are_followed_to_the_end_of_the_sandbox() -> None:
    async def work() -> None:
        async with AsyncSandbox() as sandbox:

            async def follow() -> list[str]:
                return [event["kind"] async for event in sandbox.events(follow=True)]

            task = asyncio.create_task(follow())
            await sandbox.run(["true"])
        kinds = await task
        assert (kinds[0], kinds[-1]) == ("session_started", "session_ended")

    run(work())

"""Python functions as tools."""

from __future__ import annotations

import asyncio
import enum
import threading
from dataclasses import dataclass
from typing import Any, Literal, Optional, Union

import pytest

from stockade import AsyncSandbox, InvalidError, Policy, Sandbox, schema


def call(name: str, arguments: str) -> str:
    """Code that prints the result of a call, or its error."""
    return (
        "import stockade_tools as tools\n"
        f"try: print(tools.{name}({arguments}))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )


def test_plain_and_async_functions_answer_calls(provider: str) -> None:
    def add(first: int, second: int = 2) -> int:
        return first + second

    async def shout(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    with Sandbox(provider=provider, tools={"add": add, "shout": shout}) as sandbox:
        assert sandbox.run_code(call("add", "first=1")).stdout == "3\n"
        assert sandbox.run_code(call("shout", "text='a'")).stdout == "A\n"
        summary = sandbox.events.summary()
    assert summary["tool_calls"] == 2


def test_exception_of_a_tool_reaches_the_code_and_ends_only_its_call() -> None:
    def fail() -> None:
        raise KeyError("absent")

    async def also() -> None:
        raise ValueError("bad")

    def leave() -> None:
        raise SystemExit(3)

    with Sandbox(tools={"fail": fail, "also": also, "leave": leave}) as sandbox:
        assert "KeyError: 'absent'" in sandbox.run_code(call("fail", "")).stdout
        assert "ValueError: bad" in sandbox.run_code(call("also", "")).stdout
        assert "SystemExit: 3" in sandbox.run_code(call("leave", "")).stdout
        assert sandbox.run(["true"]).ok


def test_arguments_that_do_not_fit_the_hints_never_reach_the_function() -> None:
    seen: list[Any] = []

    def keep(number: int) -> None:
        seen.append(number)

    with Sandbox(tools={"keep": keep}) as sandbox:
        assert sandbox.run_code(call("keep", "number=1")).stdout == "None\n"
        refused = sandbox.run_code(call("keep", "number='x'")).stdout
    assert seen == [1]
    assert "number" in refused


def test_tool_that_the_policy_does_not_list_is_denied() -> None:
    def secret() -> int:
        return 1

    with Sandbox(tools={"secret": secret}) as free:
        assert free.run_code(call("secret", "")).stdout == "1\n"
    tools = {"secret": secret}
    code = (
        "import stockade_tools as tools\n"
        "try: print(tools.call('secret', {}))\n"
        "except Exception as error: print(error)\n"
    )
    with Sandbox(Policy.build(tool_allowlist=["other"]), tools=tools) as strict:
        ended = strict.run_code(code)
    assert "1\n" != ended.stdout and "tool" in ended.stdout
    assert [denial.target for denial in ended.denials] == ["secret"] or "no attribute" in ended.stdout


def test_async_tools_run_in_the_loop_of_the_caller() -> None:
    threads: list[int] = []

    async def work() -> None:
        async def where() -> int:
            threads.append(threading.get_ident())
            return 1

        async with AsyncSandbox(tools={"where": where}) as sandbox:
            assert (await sandbox.run_code(call("where", ""))).stdout == "1\n"

    asyncio.run(work())
    assert threads == [threading.get_ident()]


def test_async_tool_is_cancelled_with_its_program() -> None:
    async def work() -> None:
        entered, cancelled = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            entered.set()
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async with AsyncSandbox(tools={"hang": hang}) as sandbox:
            task = asyncio.create_task(sandbox.run_code(call("hang", "")))
            await entered.wait()
            task.cancel()
            await asyncio.wait_for(cancelled.wait(), 20)

    asyncio.run(work())


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


def test_dataclasses_and_enums_are_converted_both_ways() -> None:
    seen: list[Any] = []

    def move(points: list[Point], colour: Colour) -> Point:
        seen.append((points, colour))
        return Point(points[0].x + 1)

    with Sandbox(tools={"move": move}) as sandbox:
        ended = sandbox.run_code(call("move", "points=[{'x': 1}], colour='red'"))
    assert ended.stdout == "{'x': 2, 'y': 0}\n"
    assert seen == [([Point(1)], Colour.RED)]


def test_schema_comes_from_hints_and_docstring() -> None:
    def find(
        query: str, limit: int = 5, kind: Literal["a", "b"] = "a", tags: Optional[list[str]] = None
    ) -> dict[str, Union[int, str]]:
        """Finds documents.

        Args:
            query: What to look for.
            limit (int): How many at most.

        Returns:
            The documents.
        """
        return {}

    shape = schema.of_function("find", find)
    assert shape.description == "Finds documents."
    tags = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    assert shape.input == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "description": "How many at most."},
            "kind": {"enum": ["a", "b"]},
            "tags": tags,
        },
        "required": ["query"],
    }
    values = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert shape.output == {"type": "object", "additionalProperties": values}


def test_hint_that_json_cannot_express_is_refused() -> None:
    def take(lock: threading.Thread) -> None: ...

    with pytest.raises(InvalidError, match="take"):
        Sandbox(tools={"take": take})
    with pytest.raises(InvalidError, match="not a function"):
        Sandbox(tools={"one": 1})  # type: ignore[dict-item]

"""Python functions as tools."""

from __future__ import annotations

import asyncio
import enum
import functools
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


def test_exception_of_a_tool_reaches_the_code_and_ends_only_its_call(provider: str) -> None:
    def fail() -> None:
        raise KeyError("absent")

    async def also() -> None:
        raise ValueError("bad")

    def leave() -> None:
        raise SystemExit(3)

    tools = {"fail": fail, "also": also, "leave": leave}
    with Sandbox(provider=provider, tools=tools) as sandbox:
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


def test_tool_that_the_policy_does_not_list_is_denied(provider: str) -> None:
    called: list[str] = []

    def secret() -> int:
        called.append("secret")
        return 1

    def other() -> int:
        called.append("other")
        return 2

    tools = {"secret": secret, "other": other}
    code = (
        "for name in ('other', 'secret'):\n"
        "    try: print(call_tool(name))\n"
        "    except Exception as error: print(type(error).__name__)\n"
        "print('secret' in globals() or hasattr(__builtins__, 'secret'))\n"
    )
    with Sandbox(provider=provider, tools=tools) as free:
        assert free.run_code(code).stdout == "2\n1\nTrue\n"
    called.clear()
    with Sandbox(Policy.build(tool_allowlist=["other"]), provider=provider, tools=tools) as strict:
        ended = strict.run_code(code)
    assert ended.stdout == "2\nToolDenied\nFalse\n"
    assert [denial.target for denial in ended.denials] == ["secret"]
    assert called == ["other"]


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


def test_bytes_are_text_in_base64_both_ways(provider: str) -> None:
    def flip(data: bytes, more: Optional[bytes] = None) -> bytes:
        assert isinstance(data, bytes)
        return data[::-1] + (more or b"")

    shape = schema.of_function("flip", flip)
    assert shape.input["properties"]["data"] == {"type": "string", "contentEncoding": "base64"}
    code = """
import base64, stockade_tools as tools
sent = base64.b64encode(bytes([0, 1, 255])).decode()
print(list(base64.b64decode(tools.flip(data=sent, more=sent))))
try: tools.flip(data="not base64")
except Exception as error: print("refused")
"""
    with Sandbox(provider=provider, tools={"flip": flip}) as sandbox:
        assert sandbox.run_code(code).stdout == "[255, 1, 0, 0, 1, 255]\nrefused\n"


def test_partial_function_keeps_its_hints_and_what_it_has_bound() -> None:
    seen: list[Any] = []

    def send(key: threading.Thread, to: str, count: int = 1, secret: str = "") -> int:
        """Sends.

        Args:
            to: Who gets it.
        """
        seen.append((to, count, secret))
        return count

    async def wait(first: int, second: int) -> int:
        return first + second

    bound = functools.partial(functools.partial(send, threading.current_thread()), secret="s")
    shape = schema.of_function("send", bound)
    assert shape.description == "Sends."
    assert shape.input == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Who gets it."},
            "count": {"type": "integer"},
        },
        "required": ["to"],
        "additionalProperties": False,
    }
    with Sandbox(tools={"send": bound, "wait": functools.partial(wait, 1)}) as sandbox:
        assert sandbox.run_code(call("send", "to='a', count=2")).stdout == "2\n"
        assert sandbox.run_code(call("wait", "second=2")).stdout == "3\n"
        # What is bound is not for the code to choose.
        assert "secret" in sandbox.run_code(call("send", "to='a', secret='x'")).stdout
    assert seen == [("a", 2, "s")]


def test_docstring_in_the_style_of_numpy_describes_the_arguments() -> None:
    def find(query: str, limit: int = 5, low: int = 0, high: int = 9) -> list[str]:
        """Finds documents.

        All of them.

        Parameters
        ----------
        query : str
            What to look for,
            in any language.
        limit : int, optional
            How many at most.

        Other Parameters
        ----------------
        low, high : int
            The range.

        Returns
        -------
        list of str
            The documents.
        """
        return []

    shape = schema.of_function("find", find)
    assert shape.description == "Finds documents.\n\nAll of them."
    described = {name: it["description"] for name, it in shape.input["properties"].items()}
    assert described == {
        "query": "What to look for, in any language.",
        "limit": "How many at most.",
        "low": "The range.",
        "high": "The range.",
    }


def test_hint_that_json_cannot_express_is_refused() -> None:
    def take(lock: threading.Thread) -> None: ...

    with pytest.raises(InvalidError, match="take"):
        Sandbox(tools={"take": take})
    with pytest.raises(InvalidError, match="not a function"):
        Sandbox(tools={"one": 1})  # type: ignore[dict-item]

"""What an unprivileged user does with the installed package. It needs no test runner."""

import asyncio

from stockade import Sandbox


def add(first: int, second: int = 2) -> int:
    return first + second


async def shout(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()


def main() -> None:
    with Sandbox(tools={"add": add, "shout": shout}) as sandbox:
        ended = sandbox.run_code("import sys; print(1); print('e', file=sys.stderr); sys.exit(3)")
        assert (ended.stdout, ended.stderr, ended.exit_code) == ("1\n", "e\n", 3), ended
        ended = sandbox.run_code("from stockade_tools import add; print(add(first=1))")
        assert ended.stdout == "3\n", ended
        ended = sandbox.run_code("from stockade_tools import shout; print(shout(text='a'))")
        assert ended.stdout == "A\n", ended
    print("an unprivileged user ran code and tools")


main()

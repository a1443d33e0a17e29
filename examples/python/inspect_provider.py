"""A sandbox provider for inspect_ai: `Task(sandbox=("stockade", "policy.yaml"))`."""

from __future__ import annotations

import asyncio
from typing import Literal, Optional, Union, overload

from inspect_ai.util import ExecResult, SandboxEnvironment, sandboxenv
from inspect_ai.util._sandbox.environment import SandboxEnvironmentConfigType

from stockade import AsyncSandbox, NotStartedError, TimedOutError


@sandboxenv(name="stockade")
class StockadeEnvironment(SandboxEnvironment):
    """A sandbox of Stockade; the configuration is the path of a policy."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        super().__init__()
        self._sandbox = sandbox

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: Optional[SandboxEnvironmentConfigType],
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        policy = config if isinstance(config, str) else None
        return {"default": cls(await AsyncSandbox.create(policy))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Optional[SandboxEnvironmentConfigType],
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            if isinstance(environment, StockadeEnvironment):
                await environment._sandbox.close()

    async def exec(
        self,
        cmd: list[str],
        input: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        env: Optional[dict[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[int] = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
        truncate: bool = False,
    ) -> ExecResult[str]:
        try:
            ended = await self._sandbox.run(cmd, stdin=input, cwd=cwd, envs=env, timeout=timeout)
        except TimedOutError as error:
            raise TimeoutError(error.message) from error
        except NotStartedError as error:
            return ExecResult(False, 127, "", error.message)
        code = ended.exit_code if ended.exit_code is not None else 137
        return ExecResult(ended.ok, code, ended.stdout, ended.stderr)

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        await self._sandbox.files.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]:
        if text:
            return await self._sandbox.files.read(file)
        return await self._sandbox.files.read(file, format="bytes")


async def main() -> None:
    environments = await StockadeEnvironment.sample_init("task", None, {})
    environment = environments["default"]
    try:
        await environment.write_file("numbers.txt", "1 2 3")
        ended = await environment.exec(["sh", "-c", "tr ' ' + < numbers.txt"])
        print(ended.success, ended.stdout)
        print(await environment.read_file("numbers.txt"))
    finally:
        await StockadeEnvironment.sample_cleanup("task", None, environments, False)


if __name__ == "__main__":
    asyncio.run(main())

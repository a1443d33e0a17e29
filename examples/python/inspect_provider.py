"""A sandbox provider for inspect_ai: `Task(sandbox=("stockade", "policy.yaml"))`."""

from __future__ import annotations

import tempfile
from typing import Literal, Optional, Union, overload

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
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


def task(policy: Optional[str] = None) -> Task:
    """A question that takes a command in the sandbox to answer."""
    sample = Sample(
        input="What is the sum of the numbers in numbers.txt?",
        target="6",
        files={"numbers.txt": "1 2 3"},
    )
    return Task(
        dataset=[sample],
        solver=[use_tools(bash(timeout=20)), generate()],
        scorer=includes(),
        sandbox="stockade" if policy is None else ("stockade", policy),
    )


def main() -> None:
    # A fake model: it calls the tool once and then answers.
    command = {"command": "pwd; cat numbers.txt; echo; tr ' ' + < numbers.txt"}
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "bash", command),
        ModelOutput.from_content("mockllm/model", "The sum is 6."),
    ]
    for output in outputs:
        # Without it the model would download a tokenizer to count.
        output.usage = ModelUsage()
    model = get_model("mockllm/model", custom_outputs=outputs)
    with tempfile.TemporaryDirectory() as logs:
        (log,) = eval(task(), model=model, display="none", log_dir=logs)
        assert log.status == "success" and log.samples and log.results, log.status
        for message in log.samples[0].messages:
            if message.role == "tool":
                print(message.text)
        print(log.results.scores[0].metrics["accuracy"].value)


if __name__ == "__main__":
    main()

"""The executor of a smolagents CodeAgent: its code runs in a sandbox instead of this process.

Each step is a program of its own. The executor keeps the variables between the steps in a file
inside, and reads nothing of it on the host but text.
"""

from __future__ import annotations

import json
from typing import Any, Callable

from smolagents import (  # type: ignore[import-untyped]
    ChatMessage,
    CodeAgent,
    LogLevel,
    MessageRole,
    Model,
    tool,
)
from smolagents.local_python_executor import (  # type: ignore[import-untyped]
    CodeOutput,
    PythonExecutor,
)

from stockade import Sandbox, StockadeError

# Runs inside: restores the variables, runs the step, and keeps what can be kept.
STEP = """
import json, pickle, sys
code, tools = json.load(sys.stdin)
space = {"__name__": "__main__"}
try:
    space.update(pickle.load(open("/workspace/.variables", "rb")))
except FileNotFoundError:
    pass
answer = {}
class Final(BaseException): pass
def final_answer(value=None):
    answer["value"] = value
    raise Final
space["final_answer"] = final_answer
if tools:
    import stockade_tools
    for name in tools:
        space[name] = getattr(stockade_tools, name)
try:
    exec(compile(code, "step.py", "exec"), space)
except Final:
    pass
kept = {}
for name, value in space.items():
    # Functions and modules are made again by the step that needs them.
    if name.startswith("__") or callable(value):
        continue
    try:
        pickle.dumps(value)
    except Exception:
        continue
    kept[name] = value
pickle.dump(kept, open("/workspace/.variables", "wb"))
open("/workspace/.answer", "w").write(json.dumps(answer, default=str))
"""


class SandboxExecutor(PythonExecutor):  # type: ignore[misc]
    """Runs the steps of an agent in a sandbox."""

    def __init__(self, tools: dict[str, Callable[..., Any]]) -> None:
        self._tools = sorted(tools)
        self._sandbox = Sandbox(tools=tools)

    def send_tools(self, tools: dict[str, Any]) -> None:
        """The tools are those of the sandbox, so that the policy judges each call."""

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Sets variables of the next steps."""
        self("".join(f"{name} = {value!r}\n" for name, value in variables.items()))

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs one step."""
        step = json.dumps([code_action, self._tools])
        try:
            ended = self._sandbox.run_code(STEP, stdin=step, timeout=30, check=True)
        except StockadeError as error:
            raise RuntimeError(str(error)) from error
        answer = json.loads(self._sandbox.files.read("/workspace/.answer"))
        return CodeOutput(
            output=answer.get("value"), logs=ended.stdout, is_final_answer="value" in answer
        )

    def cleanup(self) -> None:
        """Ends the sandbox."""
        self._sandbox.close()


class FakeModel(Model):  # type: ignore[misc]
    """Stands for a model: it answers with one step after the other."""

    def __init__(self, steps: list[str]) -> None:
        super().__init__(model_id="fake")
        self._steps = iter(steps)

    def generate(self, messages: list[ChatMessage], **options: Any) -> ChatMessage:
        text = f"Thought: the next step.\n<code>\n{next(self._steps)}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The name of the city.
    """
    return f"sunny in {city}"


def main() -> None:
    steps = [
        "import os\nx = 20\nprint(os.getcwd(), weather(city='Bern'))",
        "x += 22\nfinal_answer(x)",
    ]
    agent = CodeAgent(
        tools=[tool(weather)],
        model=FakeModel(steps),
        executor=SandboxExecutor({"weather": weather}),
        verbosity_level=LogLevel.OFF,
    )
    try:
        answer = agent.run("How is the weather in Bern?")
        for step in agent.memory.get_succinct_steps():
            print(step.get("observations") or step.get("task"))
        print(answer)
    finally:
        agent.cleanup()


if __name__ == "__main__":
    main()

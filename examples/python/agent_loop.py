"""An agent that writes code, sees its output, and answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from stockade import ExecutionError, Policy, Sandbox


@dataclass
class FakeModel:
    """Answers from a list, as a model would answer with code or with a final text."""

    replies: list[str]
    seen: list[str] = field(default_factory=list)

    def reply(self, message: str) -> str:
        self.seen.append(message)
        return self.replies.pop(0)


def run(sandbox: Sandbox, code: str) -> str:
    """What the model sees of a program: its output, or why it did not run."""
    try:
        result = sandbox.run_code(code, timeout=20)
    except ExecutionError as error:
        # The message names the rule or the limit, and what the model can do instead.
        return f"error: {error}"
    return f"exit code {result.exit_code}\n{result.stdout}{result.stderr}"


def solve(task: str, model: FakeModel, sandbox: Sandbox, most_steps: int = 8) -> str:
    """Lets the model run code until it answers."""
    message = task
    for _ in range(most_steps):
        reply = model.reply(message)
        if not reply.startswith("```python"):
            return reply
        code = reply.removeprefix("```python").removesuffix("```")
        message = run(sandbox, code)
    return "no answer"


def main() -> None:
    model = FakeModel(
        [
            "```python\nimport subprocess; subprocess.run(['id'])\n```",
            "```python\nprint(sum(n * n for n in range(10)))\n```",
            "The sum of the squares is 285.",
        ]
    )
    rule = {
        "name": "no-subprocess",
        "condition": {"field": "code", "operator": "contains", "value": "subprocess"},
        "action": "deny",
        "message": "Compute it in Python.",
    }
    policy = Policy.build(defaults={"action": "allow"}, rules=[rule])
    with Sandbox(policy) as sandbox:
        print(solve("What is the sum of the squares below 100?", model, sandbox))
    print(model.seen[1].splitlines()[0])


if __name__ == "__main__":
    main()

"""A function tool in the format of OpenAI's API: its description, and the answer to a call."""

from __future__ import annotations

import json
from typing import Any

from stockade import Sandbox, StockadeError

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "run_python",
        "description": "Runs Python code in a sandbox that keeps its files between calls.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The code."}},
            "required": ["code"],
            "additionalProperties": False,
        },
    },
}


def answer(sandbox: Sandbox, call: dict[str, Any]) -> dict[str, str]:
    """The message that answers a tool call of the model."""
    try:
        code = str(json.loads(call["function"]["arguments"])["code"])
        result = sandbox.run_code(code, timeout=20)
        content = {"exit_code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}
    except (ValueError, KeyError, StockadeError) as error:
        # The model can correct its call.
        content = {"error": str(error)}
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(content)}


def main() -> None:
    # What a model returns in `message.tool_calls`.
    calls = [
        {"id": "1", "function": {"name": "run_python", "arguments": '{"code": "x=6; print(x*7)"}'}},
        {"id": "2", "function": {"name": "run_python", "arguments": "{}"}},
    ]
    with Sandbox() as sandbox:
        for call in calls:
            print(answer(sandbox, call)["content"])


if __name__ == "__main__":
    main()

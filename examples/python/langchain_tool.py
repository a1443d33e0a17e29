"""A tool for LangChain."""

from __future__ import annotations

from langchain_core.tools import BaseTool, ToolException, tool

from stockade import Sandbox, StockadeError


def python_tool(sandbox: Sandbox) -> BaseTool:
    """A tool that runs Python code in a sandbox."""

    @tool("run_python")
    def run_python(code: str) -> str:
        """Runs Python code in a sandbox and returns what it printed."""
        try:
            result = sandbox.run_code(code, timeout=20)
        except StockadeError as error:
            raise ToolException(str(error)) from error
        return result.stdout + result.stderr

    run_python.handle_tool_error = True
    return run_python


def main() -> None:
    with Sandbox() as sandbox:
        run_python = python_tool(sandbox)
        print(run_python.name, sorted(run_python.args))
        print(run_python.invoke({"code": "print(6 * 7)"}))


if __name__ == "__main__":
    main()

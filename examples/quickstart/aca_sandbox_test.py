"""A session in Azure Container Apps, and every branch that its policy can take.

    export AZURE_SUBSCRIPTION_ID=... AZURE_RG=agents-rg AZURE_REGION=westus2
    az login
    python examples/quickstart/aca_sandbox_test.py

The tests run it against a local double of the service, with the variables of docs/azure.md. It has
not been run against Azure itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any, Optional

from agent_sandbox import ACASandboxProvider, ExecutionHandle

POLICY = Path(__file__).resolve().parent / "policies" / "aca_research_agent.yaml"

FETCH = """
from urllib.request import urlopen
print(urlopen("https://{host}/simple/", timeout=10).status)
"""
BLOCKED = """
from urllib.request import urlopen
try:
    print("reached", urlopen("https://example.com", timeout=10).status)
except Exception as error:
    print("blocked:", error)
"""
WHERE = """
import os, socket
print(socket.gethostname(), os.getuid())
"""


class Session:
    """One session of an agent, with a line of output for each branch."""

    def __init__(self, provider: ACASandboxProvider, agent: str, session: str) -> None:
        self.provider, self.agent, self.session = provider, agent, session

    async def run(self, code: str, tool: Optional[str] = None) -> ExecutionHandle:
        context: Optional[dict[str, Any]] = {"tool_name": tool} if tool else None
        return await self.provider.execute_code_async(
            self.agent, self.session, code, context=context
        )

    async def prints(self, branch: str, code: str, tool: Optional[str] = None) -> str:
        """Runs code that must succeed, and returns what it printed."""
        result = (await self.run(code, tool)).result
        assert result is not None and result.success, (branch, result)
        output = result.stdout.strip()
        print(f"{branch:<16} {output}")
        return output

    async def refuses(self, branch: str, code: str, tool: Optional[str] = None) -> None:
        """Runs code that the policy must deny before anything reaches Azure."""
        try:
            await self.run(code, tool)
        except PermissionError as error:
            print(f"{branch:<16} {error}")
        else:
            raise AssertionError(f"{branch}: it ran")


async def branches(session: Session) -> None:
    assert await session.prints("allowed", FETCH.format(host="packages.example.net")) == "200"
    await session.refuses("policy denies", "import subprocess; subprocess.run(['id'])")
    assert "blocked:" in await session.prints("egress blocks", BLOCKED)
    # The session is as healthy as before.
    assert await session.prints("sanity", "print(6 * 7)") == "42"
    await session.prints("tool allowed", "print('fetched')", tool="fetch_arxiv")
    await session.refuses("tool denied", "print('never')", tool="delete_everything")
    where = await session.prints("runs elsewhere", WHERE)
    assert where.split()[0] != socket.gethostname(), where
    audit(session)


def audit(session: Session) -> None:
    """The service's decisions are in Stockade's own record of the session, next to the rest."""
    decisions = session.provider.egress_decisions(session.agent, session.session)
    seen = {(it["host"], it["verdict"]) for it in decisions}
    assert ("packages.example.net", "allow") in seen and ("example.com", "deny") in seen, seen
    print(f"{'egress audit':<16} {len(seen)} hosts, allowed and denied")


async def main() -> int:
    group = os.environ.get("AZURE_RG")
    if not group:
        print("set AZURE_RG to a resource group that exists", file=sys.stderr)
        return 2
    region = os.environ.get("AZURE_REGION", "westus2")
    with ACASandboxProvider(
        resource_group=group,
        sandbox_group=os.environ.get("AZURE_SANDBOX_GROUP", "agents"),
        region=region,
        disk=os.environ.get("AZURE_SANDBOX_DISK", "python-3.13"),
        ensure_group_location=region,
    ) as provider:
        if not provider.is_available():
            print(provider.unavailable_reason, file=sys.stderr)
            return 2
        handle = await provider.create_session_async("research-agent", policy=str(POLICY))
        try:
            await branches(Session(provider, handle.agent_id, handle.session_id))
        finally:
            await provider.destroy_session_async(handle.agent_id, handle.session_id)
    print("every branch is as the policy says")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

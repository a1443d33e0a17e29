"""A whole session, with the client library from PyPI. Prints what it found as JSON.

python3 session.py auto|legacy COMMAND ARGUMENTS...
"""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main(mode, command, arguments):
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(server, mode=mode) as client:
        found = {"version": client.protocol_version}
        found["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)

        async def call(tool, **arguments):
            # The library checks the result with the schema of the tool.
            return await client.call_tool(tool, arguments)

        created = await call("create_sandbox", memory_mb=128)
        sandbox = created.structured_content["sandbox_id"]
        code = "import zlib, struct\n" + (
            "def chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n"
            "row = b'\\0\\xff\\0\\0'\n"
            "open('dot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n'"
            " + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0))"
            " + chunk(b'IDAT', zlib.compress(row)) + chunk(b'IEND', b''))\n"
            "print(sum(range(10)))"
        )
        run = await call("run_code", sandbox_id=sandbox, code=code)
        found["stdout"] = run.structured_content["stdout"]
        picture = await call("read_file", sandbox_id=sandbox, path="dot.png")
        found["content"] = [block.type for block in picture.content]
        found["picture"] = picture.content[1].mime_type
        command = ["sh", "-c", "echo out; echo err >&2; exit 7"]
        run = await call("run_command", sandbox_id=sandbox, command=command)
        found["command"] = [run.structured_content[key] for key in ("stdout", "stderr", "exit_code")]
        await call("write_file", sandbox_id=sandbox, path="a/b", content="text\n")
        read = await call("read_file", sandbox_id=sandbox, path="a/b")
        found["read"] = read.structured_content["content"]
        listed = await call("list_files", sandbox_id=sandbox, path="a")
        found["listed"] = [entry["path"] for entry in listed.structured_content["entries"]]
        kept = await call("checkpoint", sandbox_id=sandbox, name="first")
        assert not kept.is_error, kept
        await call("write_file", sandbox_id=sandbox, path="a/b", content="changed\n")
        diff = await call("diff", sandbox_id=sandbox, **{"from": "first"})
        changes = diff.structured_content["changes"]
        found["diff"] = [[it["path"], it["patch"].partition("@@\n")[2]] for it in changes]
        restored = await call("restore", sandbox_id=sandbox, name="first")
        found["restored"] = restored.structured_content["name"]
        read = await call("read_file", sandbox_id=sandbox, path="a/b")
        found["again"] = read.structured_content["content"]
        why = await call("explain_denial", sandbox_id=sandbox, host="example.org")
        found["why"] = why.structured_content["verdict"]["why"]
        wrong = await call("run_code", sandbox_id="nowhere", code="print(1)")
        found["wrong"] = [wrong.is_error, wrong.content[0].text]
        closed = await call("close_sandbox", sandbox_id=sandbox)
        found["closed"] = closed.structured_content["closed"]
        listed = await call("list_sandboxes")
        found["sandboxes"] = listed.structured_content["sandboxes"]
        print(json.dumps(found))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))

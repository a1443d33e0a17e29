// A session with the client library from npm. Prints what it found as JSON.
//
// node session.mjs COMMAND ARGUMENTS...

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "tests", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
// The library checks results with the schemas that it has listed.
const { tools } = await client.listTools();
const call = (name, args = {}) => client.callTool({ name, arguments: args });
const created = await call("create_sandbox");
const sandbox_id = created.structuredContent.sandbox_id;
const run = await call("run_code", { sandbox_id, code: "print('from npm')" });
await call("write_file", { sandbox_id, path: "a", content: "text" });
const read = await call("read_file", { sandbox_id, path: "a" });
const listed = await call("list_files", { sandbox_id });
const why = await call("explain_denial", { sandbox_id, path: "/etc/shadow" });
const wrong = await call("close_sandbox", { sandbox_id: "nowhere" });
const closed = await call("close_sandbox", { sandbox_id });
await client.close();
console.log(
  JSON.stringify({
    tools: tools.length,
    stdout: run.structuredContent.stdout,
    read: read.structuredContent.content,
    listed: listed.structuredContent.entries.map((entry) => entry.path),
    why: why.structuredContent.verdict.effect,
    wrong: wrong.isError,
    closed: closed.structuredContent.closed,
  }),
);

use std::path::Path;

use serde_json::json;

use super::broker::{TestBroker, ended, node_runs};
use super::tools;

#[test]
fn scripts_modules_and_threads_call_a_tool() {
    let broker = TestBroker::new(&tools());
    let call =
        "const found = await callTool('fetch_arxiv', { query: 'cs.CL', unsaid: undefined });";
    let show = "console.log(JSON.stringify(found), (await callTool.list())[0].name);";
    let script = format!("(async () => {{ {call} {show} }})();");
    let Some(printed) = broker.node("script.cjs", &script) else { return };
    assert_eq!(printed, "{\"query\":\"cs.CL\"} fetch_arxiv\n");
    assert_eq!(broker.node("module.mjs", &format!("{call} {show}")).unwrap(), printed);
    broker.file("thread.cjs", &script);
    let threads = "const { Worker } = require('worker_threads');\n\
         new Worker(require('path').join(__dirname, 'thread.cjs'));";
    assert_eq!(broker.node("threads.cjs", threads).unwrap(), printed);
    assert_eq!(broker.connections(), 3);
    assert_eq!(
        broker.requests()[0],
        json!({ "id": 1, "call": "fetch_arxiv", "arguments": { "query": "cs.CL" } })
    );
}

#[test]
fn thousand_calls_share_one_connection_with_answers_in_any_order() {
    let broker = TestBroker::new(&tools());
    let code = "const numbers = [...Array(1000).keys()];\n\
         const found = await Promise.all(numbers.map((number) => callTool('gather', { of: 1000, number })));\n\
         console.log(found.every((one, number) => one === number));";
    let Some(printed) = broker.node("many.mjs", code) else { return };
    assert_eq!(printed, "true\n");
    assert_eq!((broker.connections(), broker.requests().len()), (1, 1000));
}

#[test]
fn errors_are_tool_errors_with_code_message_and_the_callers_stack() {
    let broker = TestBroker::new(&tools());
    let code = "async function asking() { await callTool('fail'); }\n\
         try { await asking(); } catch (error) {\n\
           console.log(error instanceof ToolError, error instanceof Error, error.name, error.code, error.message);\n\
           console.log(error.stack.includes('asking'), String(error));\n\
         }\n\
         await callTool('forbidden').catch((error) => console.log(error.code, error.message));\n\
         console.log(Object.keys(globalThis).includes('callTool'));";
    let Some(printed) = broker.node("errors.mjs", code) else { return };
    assert_eq!(
        printed,
        "true true ToolError failed the tool says “no”\n\
         true ToolError: the tool says “no”\n\
         denied tool_allowlist does not name `forbidden`\n\
         false\n"
    );
}

#[test]
fn lost_connection_rejects_every_call_and_the_next_call_reconnects() {
    let broker = TestBroker::new(&tools());
    let code = "for (const name of ['die', 'half', 'garbage', 'confused']) {\n\
           const calls = [callTool('sleep'), callTool('sleep'), callTool(name)];\n\
           const ends = await Promise.allSettled(calls);\n\
           console.log(name, new Set(ends.map((end) => `${end.status} ${end.reason.code} ${end.reason.message}`)));\n\
           console.log(await callTool('echo', { name }));\n\
         }\n\
         process.env.STOCKADE_TOOLS_SOCKET = '/nowhere';\n\
         await callTool('die').catch(() => {});\n\
         await callTool('echo').catch((error) => console.log(error.code, error.message.split('(')[0]));";
    let Some(printed) = broker.node("lost.mjs", code) else { return };
    let lost = "rejected broken the connection to the host was lost before the answer:";
    let expected = format!(
        "die Set(1) {{\n  '{lost} the host closed it'\n}}\n{{ name: 'die' }}\n\
         half Set(1) {{\n  '{lost} the host closed it'\n}}\n{{ name: 'half' }}\n\
         garbage Set(1) {{\n  '{lost} the answer is not valid'\n}}\n{{ name: 'garbage' }}\n\
         confused Set(1) {{ 'rejected invalid_request this is no request' }}\n{{ name: 'confused' }}\n\
         broken no tool can be called: the socket of the tools cannot be reached \n"
    );
    assert_eq!(printed, expected);
}

#[test]
fn values_that_json_cannot_represent_are_refused_before_sending() {
    let broker = TestBroker::new(&tools());
    let code = "const round = {}; round.round = round;\n\
         let deep = []; for (let n = 0; n < 1e6; n++) deep = [deep];\n\
         for (const value of [NaN, [Infinity], 1n, new Map(), new Set(), new Uint8Array(3), Symbol('x'),\n\
             () => 1, [undefined], '\\ud800', { '\\udfff': 1 }, round, deep, new Error('x')]) {\n\
           await callTool('echo', { value }).then(() => console.log('no error', value), (error) =>\n\
             console.log(error instanceof TypeError, error.message.split('\\n')[0]));\n\
         }\n\
         for (const args of [null, 7, [], 'x', new Map(), new Date(0), { toJSON() {} }]) {\n\
           await callTool('echo', args).catch((error) => console.log(error.message));\n\
         }\n\
         await callTool(7).catch((error) => console.log(error.message));\n\
         console.log(JSON.stringify(await callTool('echo', { when: new Date(0), half: '\\u{1f600}', none: null })));";
    let Some(printed) = broker.node("refused.mjs", code) else { return };
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "true echo: `value` is NaN, and JSON has no such number");
    assert_eq!(lines[5], "true echo: `value` is a Uint8Array, which is not JSON");
    assert!(lines[..14].iter().all(|line| line.starts_with("true ")), "{printed}");
    assert!(
        lines[14..21].iter().all(|line| line.starts_with("echo: arguments are an object")),
        "{printed}"
    );
    assert_eq!(lines[21], "the name of a tool is a string, not number");
    assert_eq!(lines[22], r#"{"when":"1970-01-01T00:00:00.000Z","half":"😀","none":null}"#);
    assert_eq!(broker.requests().len(), 1);
}

#[test]
fn program_exits_once_no_answer_is_pending() {
    let broker = TestBroker::new(&tools());
    let code = "setTimeout(() => callTool('echo', { x: 1 }).then((found) => console.log(found)), 50);\n\
         callTool('echo').then(() => console.log('first'));";
    let Some(printed) = broker.node("ends.cjs", code) else { return };
    assert_eq!(printed, "first\n{ x: 1 }\n");
}

#[test]
fn starting_node_loads_no_module_for_the_tools() {
    if !node_runs() {
        return;
    }
    let broker = TestBroker::new(&tools());
    let code = "console.log(process.moduleLoadList.join('\\n'))";
    let node = Path::new("node");
    let bare = ended(broker.command(node).env_remove("NODE_OPTIONS").args(["-e", code]));
    let with = ended(broker.command(node).args(["-e", code]));
    let before: Vec<&str> = bare.stdout.lines().collect();
    let more: Vec<&str> = with.stdout.lines().filter(|name| !before.contains(name)).collect();
    assert!(more.iter().all(|name| !name.contains("net")), "{more:?}");
}

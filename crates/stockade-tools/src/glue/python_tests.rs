use serde_json::json;

use super::broker::TestBroker;
use super::{tool, tools};

#[test]
fn tool_is_a_function_that_needs_no_import() {
    let broker = TestBroker::new(&tools());
    let printed = broker.python(
        r#"
print(fetch_arxiv("cs.CL"))
print(fetch_arxiv("cs.CL", 3, order="old"))
print(fetch_arxiv(order="new", query="x"))
print(call_tool("fetch_arxiv", query="cs.CL"))
print(call_tool("fetch_arxiv", "cs.CL", 3))
print(call_tool("echo", name="n", tool="t", self=1, args=[1], kwargs={"a": None}))
print(echo(text="ä😀\n\"\\ \x00", deep=[(1, 2.5, True), {"": 10**30}]))
"#,
    );
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "{'query': 'cs.CL'}");
    assert_eq!(lines[1], "{'query': 'cs.CL', 'max_results': 3, 'order': 'old'}");
    assert_eq!(lines[2], "{'order': 'new', 'query': 'x'}");
    assert_eq!(lines[3], "{'query': 'cs.CL'}");
    let deep = json!([[1, 2.5, true], { "": 1e30 }]);
    let asked = broker.requests();
    assert_eq!(asked[0]["call"], "fetch_arxiv");
    assert_eq!(asked[4]["arguments"], json!({ "query": "cs.CL", "max_results": 3 }));
    let all = json!({ "name": "n", "tool": "t", "self": 1, "args": [1], "kwargs": { "a": null } });
    assert_eq!(asked[5]["arguments"], all);
    assert_eq!(asked[6]["arguments"], json!({ "text": "ä😀\n\"\\ \0", "deep": deep }));
    assert_eq!(broker.connections(), 1);
    let ids: Vec<u64> = asked.iter().map(|request| request["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn wrong_number_or_name_of_arguments_is_a_type_error_that_names_the_tool() {
    let mut shown = tools();
    let mut late = tool("late", json!({ "first": {}, "second": {}, "odd-name": {} }));
    late.input_schema["required"] = json!(["second"]);
    shown.push(late);
    let broker = TestBroker::new(&shown);
    let printed = broker.python(
        r#"
def refused(call):
    try:
        print("no error", call())
    except TypeError as error:
        print(error)
refused(lambda: fetch_arxiv())
refused(lambda: fetch_arxiv("a", 1, "new", 4))
refused(lambda: call_tool("fetch_arxiv", "a", 1, "new", 4))
refused(lambda: fetch_arxiv("a", query="b"))
refused(lambda: call_tool("fetch_arxiv", "a", query="b"))
refused(lambda: fetch_arxiv("a", limit=1))
refused(lambda: late(1))
refused(lambda: late(1, 2, 3, **{"odd-name": 4}))
refused(lambda: call_tool(7))
refused(lambda: call_tool(["fetch_arxiv"]))
print(late(second=2, odd_name=3))
"#,
    );
    let lines: Vec<&str> = printed.lines().collect();
    let expected = [
        "fetch_arxiv() missing a required argument: 'query'",
        "fetch_arxiv() takes at most 3 unnamed arguments, and 4 were given",
        "fetch_arxiv() takes at most 3 unnamed arguments, and 4 were given",
        "fetch_arxiv() got multiple values for argument 'query'",
        "fetch_arxiv() got multiple values for argument 'query'",
        "fetch_arxiv() got an unexpected argument 'limit'",
    ];
    assert_eq!(lines[..6], expected);
    assert_eq!(lines[6], "late() missing a required argument: 'second'");
    assert_eq!(lines[7], "late() got multiple values for argument 'odd-name'");
    assert_eq!(lines[8], "the name of a tool is a str, not int");
    assert_eq!(lines[9], "the name of a tool is a str, not list");
    assert_eq!(lines[10], "{'second': 2, 'odd-name': 3}");
    assert_eq!(broker.requests().len(), 1, "what is wrong is not sent");
}

#[test]
fn errors_are_exceptions_with_code_and_message() {
    let broker = TestBroker::new(&tools());
    let printed = broker.python(
        r#"
import copy, pickle
for name, args in [("fail", ()), ("forbidden", ()), ("forbidden", (1, 2)), ("limit", ())]:
    try:
        call_tool(name, *args)
    except ToolError as error:
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.code, type(again)) == (str(error), error.code, type(error))
        print(type(error).__name__, error.code, error)
assert issubclass(ToolDenied, ToolError) and issubclass(ToolError, Exception)
import stockade_tools
assert stockade_tools.ToolError is ToolError and stockade_tools.ToolDenied is ToolDenied
assert stockade_tools.call_tool is call_tool and stockade_tools.echo is echo
assert pickle.loads(pickle.dumps(fetch_arxiv)) is fetch_arxiv
assert not hasattr(stockade_tools, "nothing") and "fetch_arxiv" in dir(stockade_tools)
print([tool["name"] for tool in stockade_tools.list_tools()][:2])
print(echo())
"#,
    );
    let expected = "ToolError failed the tool says “no”\n\
         ToolDenied denied tool_allowlist does not name `forbidden`\n\
         ToolDenied denied tool_allowlist does not name `forbidden`\n\
         ToolDenied limit no call is left\n\
         ['fetch_arxiv', 'echo']\n{}\n";
    assert_eq!(printed, expected);
    assert_eq!(broker.connections(), 1, "an error of a tool costs no connection");
}

#[test]
fn values_that_json_cannot_represent_are_refused_before_sending() {
    let broker = TestBroker::new(&tools());
    let printed = broker.python(
        r#"
import datetime
def refused(**arguments):
    try:
        print("no error", echo(**arguments))
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
round = []
round.append([round])
deep = []
for _ in range(100000):
    deep = [deep]
refused(x=float("nan"))
refused(x=[1, {"y": float("-inf")}])
refused(x={1, 2})
refused(x=b"abc")
refused(x={"at": datetime.date(2026, 1, 1)})
refused(x={"a": {1: 2}})
refused(x=[{None: 1}])
refused(x="\ud800")
refused(x={"\udfff": 1})
refused(x=round)
refused(x=deep)
refused(x=object)
refused(**{"\ud800": 1})
"#,
    );
    let lines: Vec<&str> = printed.lines().collect();
    let expected = [
        "ValueError echo(): the argument x is nan, and JSON has no such number",
        "ValueError echo(): the argument x[1]['y'] is -inf, and JSON has no such number",
        "TypeError echo(): the argument x is of type set, which is not JSON; pass a list",
        "TypeError echo(): the argument x is of type bytes, which is not JSON; pass a str, such as base64.b64encode(…).decode()",
        "TypeError echo(): the argument x['at'] is of type date, which is not JSON; pass a str, a number, a bool, None, a list or a dict",
        "TypeError echo(): the argument x['a'] has the key 1, and JSON has str keys only",
        "TypeError echo(): the argument x[0] has the key None, and JSON has str keys only",
        "ValueError echo(): the argument x is not valid text: it has a lone surrogate",
        "ValueError echo(): the argument x has a key that is not valid text: it has a lone surrogate",
        "ValueError echo(): the argument x[0][0] contains itself",
        "ValueError echo(): the arguments are nested too deep",
        "TypeError echo(): the argument x is of type type, which is not JSON; pass a str, a number, a bool, None, a list or a dict",
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert!(lines[expected.len()].starts_with("ValueError echo(): the arguments are not JSON"));
    assert!(broker.requests().is_empty());
}

#[test]
fn help_shows_signature_description_and_what_the_schema_says() {
    let broker = TestBroker::new(&tools());
    let help = broker.python("help(fetch_arxiv)");
    for expected in [
        "Help on function fetch_arxiv",
        "fetch_arxiv(query, max_results=optional, order=optional)\n",
        "Searches arXiv.\n",
        "The newest come first.\n",
        "query: string - What to look for, such as cs.CL.\n",
        "max_results, optional: integer - Default: 10.\n",
        "order, optional: One of \"new\", \"old\".\n",
        "Returns: array - Titles.\n",
    ] {
        assert!(help.contains(expected), "{expected}\n{help}");
    }
    assert!(broker.python("help(echo)").contains("echo(**others)\n"));
    assert!(broker.python("help(call_tool)").contains("call_tool(name, /, *args, **kwargs)\n"));
}

#[test]
fn lost_connection_is_an_exception_and_the_next_call_reconnects() {
    let broker = TestBroker::new(&tools());
    let printed = broker.python(
        r#"
for name in ["die", "half", "garbage", "confused"]:
    try:
        call_tool(name)
    except ToolError as error:
        print(error.code, error)
    assert echo(after=name) == {"after": name}
"#,
    );
    let expected = "broken the connection to the host was lost before die was answered: the host closed it\n\
         broken the connection to the host was lost before half was answered: the host closed it\n\
         broken the connection to the host was lost before garbage was answered: the answer is not valid\n\
         invalid_request this is no request\n";
    assert_eq!(printed, expected);
    assert_eq!(broker.connections(), 5);
    let gone = broker.python(
        r#"
import os
os.environ["STOCKADE_TOOLS_SOCKET"] = "/nowhere/tools.sock"
try:
    echo()
except ToolError as error:
    print(error.code, error)
"#,
    );
    let expected = "broken no tool can be called: the socket of the tools cannot be reached \
                    (No such file or directory)\n";
    assert_eq!(gone, expected);
}

//! Names and texts from untrusted authors.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use super::broker::{TestBroker, ended, interpreter};
use super::{Listed, tool};
use crate::glue::python::listing;

#[test]
fn tools_named_like_python_builtins_do_not_shadow_them() {
    let names = [
        "print",
        "class",
        "None",
        "__debug__",
        "__import__",
        "__builtins__",
        "__name__",
        "len",
        "isinstance",
        "call_tool",
        "ToolError",
        "_call",
        "_listed",
        "globals",
        "3d",
        "größe",
        "a b",
        "match",
        "_",
    ];
    let shown: Vec<Listed> = names.iter().map(|name| tool(name, json!({ "x": {} }))).collect();
    let broker = TestBroker::new(&shown);
    let all = serde_json::to_string(&names).unwrap();
    let code = format!(
        r#"
import builtins, io, sys
assert print is builtins.print and isinstance(1, int) and len([1]) == 1
assert issubclass(ToolError, Exception)
import json
names = json.loads('''{all}''')
for number, name in enumerate(names):
    assert call_tool(name, number) == {{"x": number}}, name
    assert call_tool(name, x=number) == {{"x": number}}, name
print([name for name in names if getattr(builtins, name, None).__class__.__name__ == "function"
       and getattr(builtins, name).__module__ == "stockade_tools"])
from stockade_tools import len as count
print(count(1))
"#
    );
    let printed = broker.python(&code);
    assert_eq!(printed, "['call_tool', '_call', '_listed', 'match', '_']\n{'x': 1}\n");
    let called: Vec<String> =
        broker.requests().iter().map(|one| one["call"].as_str().unwrap().to_owned()).collect();
    assert_eq!(called[0], "print");
    assert_eq!(called.len(), 2 * names.len() + 1);
}

#[test]
fn dots_and_dashes_become_underscores_unless_names_collide() {
    let names = ["web.search", "get-it", "a/b:c", "x.y", "x-y", "u_v", "u.v"];
    let shown: Vec<Listed> = names.iter().map(|name| tool(name, json!({}))).collect();
    let broker = TestBroker::new(&shown);
    let printed = broker.python(
        r#"
import builtins
web_search(); get_it(); a_b_c(); u_v()
print(hasattr(builtins, "x_y"))
call_tool("x.y"); call_tool("x-y"); call_tool("u.v")
print(web_search.__name__)
"#,
    );
    assert_eq!(printed, "False\nweb_search\n");
    let called: Vec<Value> =
        broker.requests().into_iter().map(|mut one| one["call"].take()).collect();
    assert_eq!(called, ["web.search", "get-it", "a/b:c", "u_v", "x.y", "x-y", "u.v"]);
}

#[test]
fn properties_with_unusual_names_are_passed_by_position_and_by_name() {
    let names = [
        "max-results",
        "max_results",
        "class",
        "",
        "a b",
        "'\"\\",
        "\n",
        "größe",
        "self",
        "others",
        "_call",
        "function",
        "None",
        "1",
        "😀",
    ];
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({ "type": "integer" }))).collect();
    let broker = TestBroker::new(&[tool("odd", Value::Object(properties))]);
    let code = format!(
        r#"
import json
names = json.loads({})
expected = {{name: number for number, name in enumerate(names)}}
assert odd(*range(len(names))) == expected
assert odd(**expected) == expected
assert odd(max_results_2=0, max_results=1, class_=2, self=8, others=9, größe=7) == {{
    "max-results": 0, "max_results": 1, "class": 2, "self": 8, "others": 9, "größe": 7}}
try:
    odd(*range(len(names) + 1))
except TypeError as error:
    print(error)
import inspect
print(inspect.signature(odd))
"#,
        serde_json::to_string(&serde_json::to_string(&names).unwrap()).unwrap()
    );
    let printed = broker.python(&code);
    let signature = "(max_results_2=optional, max_results=optional, class_=optional, _=optional, \
         a_b=optional, ___=optional, __2=optional, größe=optional, self=optional, others=optional, \
         _call=optional, function=optional, None_=optional, _1=optional, __3=optional, **others_)";
    let error = "odd() takes at most 15 unnamed arguments, and 16 were given";
    assert_eq!(printed, format!("{error}\n{signature}\n"));
}

#[test]
fn thousand_properties_are_positional_and_further_ones_are_passed_by_name() {
    let properties: Map<String, Value> =
        (0..1200).map(|number| (format!("p{number}"), json!({ "description": "x" }))).collect();
    let odd: Map<String, Value> =
        (0..1000).map(|number| (format!("{number}é"), json!({ "description": "é" }))).collect();
    let broker = TestBroker::new(&[
        tool("wide", Value::Object(properties)),
        tool("odd", Value::Object(odd)),
    ]);
    broker.python(
        r#"
expected = {"p%d" % number: number for number in range(1000)}
assert wide(*range(1000)) == expected
assert wide(p1199=1) == {"p1199": 1}
assert odd(*range(1000)) == {"%dé" % number: number for number in range(1000)}
"#,
    );
    let made = listing(&[tool("wide", json!({}))]);
    assert!(made.is_ascii());
}

#[test]
fn descriptions_are_text_and_never_run_as_code() {
    let hostile =
        "'''\"\"\"\\\n\\'; import os; os._exit(3)\n#\r\u{85}\u{2028}\0\u{1b}[2J\u{202e}😀é{x}%s";
    let mut shown = tool(
        "quiet",
        json!({ "x": { "description": hostile, "type": hostile,
        "default": hostile, "enum": [hostile] } }),
    );
    shown.description = hostile.to_owned();
    shown.output_schema = Some(json!({ "description": hostile, "type": [hostile] }));
    let broker = TestBroker::new(&[shown]);
    let printed = broker.python("import sys; print(ascii(quiet.__doc__)); quiet()");
    assert!(printed.contains(r#"\'\'\'"""\\"#), "{printed}");
    assert!(printed.contains("import os; os._exit(3)") && printed.contains(r"\U0001f600\xe9{x}%s"));
    let doc = broker.python("print(quiet.__doc__)");
    assert!(doc.chars().all(|c| c == '\n' || stockade_policy::is_harmless(c)), "{doc:?}");
    let long = Listed { description: "é".repeat(1 << 20), ..tool("long", json!({})) };
    assert!(listing(&[long]).len() < 200_000);
}

#[test]
fn any_valid_schema_yields_a_function() {
    let schemas = [
        json!(true),
        json!(null),
        json!([]),
        json!({}),
        json!("x"),
        json!({ "properties": [] }),
        json!({ "properties": { "a": true, "b": null }, "required": "a" }),
        json!({ "properties": { "a": {} }, "required": [1, "b", "a"], "additionalProperties": false }),
        json!({ "properties": {}, "additionalProperties": false }),
        json!({ "$ref": "#/$defs/x", "patternProperties": {}, "additionalProperties": false }),
    ];
    let shown: Vec<Listed> = schemas
        .into_iter()
        .enumerate()
        .map(|(number, input_schema)| Listed {
            input_schema,
            ..tool(&format!("t{number}"), json!({}))
        })
        .collect();
    let broker = TestBroker::new(&shown);
    broker.python("t0(x=1); t4(); t6(1, 2); t7(1); t8(); t9(y=2)\nimport pydoc\nfor n in range(10): pydoc.render_doc(eval('t%d' % n))");
}

/// A tool as a malicious server could describe it.
fn any_tool() -> impl Strategy<Value = Listed> {
    let word = prop_oneof![
        any::<String>(),
        "[a-z_.:/-]{1,8}",
        prop::sample::select(vec![
            "print", "class", "self", "'''", "\\", "\"\"\"", "\r\n", "#", "{}"
        ])
        .prop_map(str::to_owned),
    ];
    let schema =
        (word.clone(), word.clone(), any::<bool>()).prop_map(
            |(about, kind, is_text)| match is_text {
                true => json!({ "description": about, "type": kind, "default": { "x": about } }),
                false => json!({ "title": about, "enum": [kind, 1.5, null] }),
            },
        );
    let properties = vec((word.clone(), schema, any::<bool>()), 0..6);
    (word.clone(), word, properties, any::<bool>()).prop_map(
        |(name, description, properties, closed)| {
            let required: Vec<Value> = properties
                .iter()
                .filter(|(_, _, required)| *required)
                .map(|(name, ..)| json!(name))
                .collect();
            let properties: Map<String, Value> =
                properties.into_iter().map(|(name, schema, _)| (name, schema)).collect();
            let mut schema = json!({ "properties": properties, "required": required });
            if closed {
                schema["additionalProperties"] = json!(false);
            }
            Listed { name, description, input_schema: schema, output_schema: None }
        },
    )
}

/// Many listings, read by one Python: all functions exist, accept their properties by position and
/// by name, and send exactly what they received.
#[test]
fn listing_is_valid_python_for_any_server() {
    let broker = TestBroker::new(&[]);
    let mut runner = TestRunner::new(Config::default());
    let mut cases = Vec::new();
    for number in 0..300 {
        use proptest::strategy::ValueTree;
        let tools = vec(any_tool(), 1..4).new_tree(&mut runner).unwrap().current();
        broker.file(&format!("cases/{number}.py"), &listing(&tools));
        cases.push(json!(
            tools
                .iter()
                .map(|tool| {
                    let keys: Vec<&String> =
                        tool.input_schema["properties"].as_object().unwrap().keys().collect();
                    json!({ "name": tool.name, "properties": keys })
                })
                .collect::<Vec<Value>>()
        ));
    }
    broker.file("cases/all.json", &json!(cases).to_string());
    let code = r#"
import builtins, json, pydoc, sys, types
import stockade_tools
before = dict(vars(builtins))
place = sys.argv[1]
source = compile(open(stockade_tools.__file__, encoding="utf-8").read(), "stockade_tools", "exec")
cases = json.load(open(place + "/all.json", encoding="utf-8"))
for number, tools in enumerate(cases):
    listing = sys.modules["_stockade_listing"] = types.ModuleType("_stockade_listing")
    text = open("%s/%d.py" % (place, number), encoding="ascii").read()
    exec(compile(text, "listing", "exec"), vars(listing))
    ours = sys.modules["stockade_tools"] = types.ModuleType("stockade_tools")
    exec(source, vars(ours))
    asked = []
    ours._ask = lambda request, what: asked.append(json.loads('{"id":0' + request.decode()))
    assert [tool for tool, _, _, _ in listing._listed] == [tool["name"] for tool in tools]
    for tool in tools:
        first = [other for other in tools if other["name"] == tool["name"]][0]
        wanted = {name: index for index, name in enumerate(first["properties"])}
        for unnamed, named in [(range(len(wanted)), {}), ((), wanted)]:
            listing.call_tool(tool["name"], *unnamed, **named)
            assert asked.pop() == {"id": 0, "call": tool["name"], "arguments": wanted}, (number, tool)
    for name, value in listing._offered.items():
        assert name.isidentifier() and value.__module__ == "stockade_tools"
        assert name in pydoc.render_doc(value)
assert dict(vars(builtins)) == before
print(len(cases))
"#;
    let place = broker.path().join("cases");
    let run = ended(broker.command(&interpreter("python3")).args(["-c", code]).arg(place));
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("300\n", ""));
}

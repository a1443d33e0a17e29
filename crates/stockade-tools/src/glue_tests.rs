//! The files as programs find them: run by the interpreters of this machine, against a tool broker
//! that implements the protocol on a real socket.

#[path = "glue/test_broker.rs"]
mod broker;
#[path = "glue/javascript_tests.rs"]
mod javascript;
#[path = "glue/listing_tests.rs"]
mod listing;
#[path = "glue/process_tests.rs"]
mod process;
#[path = "glue/python_tests.rs"]
mod python;

use serde_json::{Value, json};

use super::*;

/// A tool with these properties, in this order, all optional.
fn tool(name: &str, properties: Value) -> Listed {
    let schema = json!({ "type": "object", "properties": properties });
    Listed {
        name: name.to_owned(),
        description: format!("Does what {name} does."),
        input_schema: schema,
        output_schema: None,
    }
}

/// The tools that most tests use.
fn tools() -> Vec<Listed> {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let fetch = Listed {
        name: "fetch_arxiv".to_owned(),
        description: "Searches arXiv.\n\nThe newest come first.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "query": text("What to look for, such as cs.CL."),
                "max_results": { "type": "integer", "default": 10 },
                "order": { "enum": ["new", "old"] },
            },
            "required": ["query"],
            "additionalProperties": false,
        }),
        output_schema: Some(json!({ "type": "array", "description": "Titles." })),
    };
    vec![
        fetch,
        tool("echo", json!({})),
        tool("gather", json!({ "of": {}, "number": {} })),
        tool("fail", json!({})),
        tool("die", json!({})),
        tool("half", json!({})),
        tool("garbage", json!({})),
        tool("confused", json!({})),
        tool("sleep", json!({})),
    ]
}

#[test]
fn files_and_variables_match_the_documentation() {
    let files = files(&tools());
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let promised = [
        "python/sitecustomize.py",
        "python/stockade_tools.py",
        "python/_stockade_listing.py",
        "node/tools.cjs",
        "tools.json",
    ];
    assert_eq!(paths, promised);
    let listing: Value = serde_json::from_slice(&files[4].1).unwrap();
    assert_eq!(listing[0]["name"], "fetch_arxiv");
    assert_eq!(listing[0]["output_schema"]["type"], "array");
    assert!(listing[1].get("output_schema").is_none());
    let variables = environment();
    let variable =
        |name: &str| variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    assert_eq!(variable("PYTHONPATH"), Some("/run/stockade/python"));
    assert_eq!(variable("NODE_OPTIONS"), Some("--require=/run/stockade/node/tools.cjs"));
    assert_eq!(variable("STOCKADE_TOOLS_SOCKET"), Some("/run/stockade/tools.sock"));
    assert_eq!(variables.len(), 3);
}

use stockade_text::{Diagnostic, MAX_TEXT_BYTES};

use super::*;

const GOOD: &str = r#"
version: "1"
tools:
  - name: word_count
    description: Counts words.
    command: [python3, ./count.py]
    environment: [API_KEY]
    input_schema: {type: object, properties: {text: {type: string}}, required: [text]}
    output_schema: {type: integer, minimum: 0}
    timeout_seconds: 2.5
  - name: weather
    http:
      url: https://api.example.org/weather?units=metric
      method: PUT
      headers: {X-Client: stockade}
      headers_from: {Authorization: "env:WEATHER_TOKEN", X-Key: "file:./key"}
    input_schema: {type: object, properties: {}}
mcp_servers:
  - name: arxiv
    command: [./server, --stdio]
    tools: [search_papers, {name: read_paper, as: read}]
"#;

fn parse(text: &str) -> Result<ToolsFile, ToolsFileError> {
    ToolsFile::parse("tools.yaml", text.as_bytes(), Path::new("/srv/tools"))
}

/// The only mistake, as `line:column: message = remedy`.
fn mistake(text: &str) -> String {
    let error = parse(text).unwrap_err();
    assert_eq!(error.diagnostics().len(), 1, "{error}");
    let Diagnostic { line, column, message, remedy, .. } = &error.diagnostics()[0];
    format!("{line}:{column}: {message} = {remedy}")
}

/// A file with one tool, modified.
fn tool(lines: &str) -> String {
    let mut text = "tools:\n  - name: a\n    input_schema: {type: object}\n".to_owned();
    for line in lines.lines() {
        text.push_str(&format!("    {line}\n"));
    }
    text
}

#[test]
fn every_kind_of_tool_is_parsed() {
    let file = parse(GOOD).unwrap();
    let names: Vec<&str> = file.names().collect();
    assert_eq!(names, ["word_count", "weather", "search_papers", "read"]);
    let ToolKind::Command(command) = &file.tools[0].kind else { panic!("{file:?}") };
    assert_eq!(command.file, Path::new("python3"));
    assert_eq!(command.arguments, ["./count.py"]);
    assert_eq!(command.environment, ["API_KEY"]);
    assert_eq!(file.tools[0].most_time, Some(Duration::from_millis(2500)));
    assert_eq!(file.tools[0].output.as_ref().unwrap()["minimum"], 0);
    let ToolKind::Http(http) = &file.tools[1].kind else { panic!("{file:?}") };
    assert_eq!(http.method, hyper::Method::PUT);
    assert_eq!(http.headers.len(), 3);
    assert_eq!(file.servers[0].command.file, Path::new("/srv/tools/./server"));
    let read = Import { name: "read_paper".to_owned(), called: "read".to_owned() };
    assert_eq!(file.servers[0].imports[1], read);
}

#[test]
fn unknown_key_suggests_the_closest_known_one() {
    let text = tool("comand: [x]\ncommand: [y]");
    assert_eq!(mistake(&text), "4:5: a tool has no key `comand` = did you mean `command`?");
    let text = "tolls: []\n";
    assert_eq!(mistake(text), "1:1: a tools file has no key `tolls` = did you mean `tools`?");
    let shown = parse(text).unwrap_err().to_string();
    let expected = "tools.yaml:1:1: a tools file has no key `tolls`\n  |\n1 | tolls: []\n  \
                    | ^^^^^\n  = did you mean `tools`?";
    assert_eq!(shown, expected);
}

#[test]
fn mistakes_suggest_a_correction() {
    for (lines, expected) in [
        (
            "command: python3 x.py",
            "4:14: command must be a list: no shell reads it = write [python3, x.py]",
        ),
        ("command: []", "4:14: command names no program = write [program, argument, …]"),
        (
            "description: x",
            "2:5: a tool has neither `command` nor `http` = write exactly one of them",
        ),
        (
            "command: [x]\ntimeout_seconds: 0",
            "5:22: timeout_seconds cannot be `0` = write a number above 0 and up to 86400",
        ),
        (
            "command: [x]\nenvironment: {A: b}",
            "5:18: environment is a list of names: their values come from here = write [NAME, OTHER_NAME] and set them where Stockade runs",
        ),
        (
            "http: {url: 'ftp://x/'}",
            "4:17: this is not a web address = write a URL that begins with https:// or http://",
        ),
        (
            "http: {url: 'http://x/', method: GET}",
            "4:38: method cannot be `GET`: arguments are sent as a body = write POST, PUT or PATCH",
        ),
        (
            "http: {url: 'http://x/', headers: {Host: y}}",
            "4:40: `Host` is not a header that can be set = write a header such as `Authorization` or `X-Api-Key`",
        ),
    ] {
        assert_eq!(mistake(&tool(lines)), expected, "{lines}");
    }
}

#[test]
fn messages_do_not_repeat_possible_secrets() {
    let password = mistake(&tool("http: {url: 'https://me:hunter2@x/'}"));
    assert!(password.contains("holds a password"), "{password}");
    let header = mistake(&tool("http: {url: 'https://x/', headers_from: {A: hunter2}}"));
    assert!(header.contains("env:NAME"), "{header}");
    assert!(!(password + &header).contains("hunter2"));
}

#[test]
fn schema_errors_name_their_location() {
    let text = "tools:\n  - name: a\n    command: [x]\n    input_schema: {type: strin}\n";
    assert!(mistake(text).starts_with("4:19: input_schema lacks `type: object`"));
    let text = tool("command: [x]\noutput_schema: {type: strin}");
    assert!(
        mistake(&text).starts_with("5:20: output_schema is not a JSON Schema, at `schema.type`")
    );
    let text = tool("command: [x]\noutput_schema: {maximum: .inf}");
    assert!(mistake(&text).starts_with("5:30: output_schema has a value that JSON cannot hold"));
    let text = tool("command: [x]\noutput_schema: {$ref: 'https://example.org/x'}");
    assert!(mistake(&text).contains("has a reference that is not local"));
}

#[test]
fn tool_names_are_unique_in_a_file() {
    let server = "  - name: word_count\n    command: [x]\n    tools: [x]\n";
    assert_eq!(parse(&(GOOD.to_owned() + server)).unwrap().servers[1].name, "word_count");
    let again = GOOD.replace("as: read", "as: weather");
    assert!(mistake(&again).contains("two tools are called `weather`"));
    assert!(
        mistake(&GOOD.replace("name: weather", "name: 'we ather'"))
            .contains("not the name of a tool")
    );
}

#[test]
fn hostile_yaml_is_refused() {
    assert!(mistake("tools: &a []\n").contains("anchors"));
    assert!(mistake("tools: !x []\n").contains("tags"));
    assert!(mistake("a: 1\na: 2\n").contains("occurs twice"));
    assert!(mistake("").contains("empty"));
    assert!(mistake("tools: []\n---\ntools: []\n").contains("one document"));
    let deep = mistake(&"[".repeat(100_000));
    assert!(deep.contains("nested more than 64 levels deep"), "{deep}");
    let latin = ToolsFile::parse("x", b"tools: [\xff]", Path::new("/")).unwrap_err();
    assert!(latin.to_string().contains("UTF-8"));
    let large = vec![b' '; MAX_TEXT_BYTES + 1];
    let large = ToolsFile::parse("x", &large, Path::new("/")).unwrap_err();
    assert!(large.to_string().contains("larger than"));
}

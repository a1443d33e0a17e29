use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn check(schema: Value, value: Value) -> Result<(), String> {
    let bytes = value.to_string().len();
    Schema::compile(&closed(schema).unwrap()).unwrap().check(&value, bytes, "arguments")
}

fn query() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1},
            "limits": {"type": "array", "items": {"type": "integer", "maximum": 10}},
            "order": {"enum": ["asc", "desc"]},
        },
        "required": ["query"],
    })
}

#[test]
fn messages_name_the_path_and_the_expected_type() {
    let message = |value| check(query(), value).unwrap_err();
    assert_eq!(check(query(), json!({"query": "x", "limits": [1], "order": "asc"})), Ok(()));
    assert_eq!(message(json!({"query": 3})), "`arguments.query` must be a string, not a number");
    let lacks = "`arguments` lacks `query`; it takes `query`, `limits`, `order`";
    assert_eq!(message(json!({})), lacks);
    let wrong = "`arguments.limits[1]` must be an integer, not a string";
    assert_eq!(message(json!({"query": "x", "limits": [1, "2"]})), wrong);
    let large = "`arguments.limits[0]` is greater than the maximum of 10";
    assert_eq!(message(json!({"query": "x", "limits": [11]})), large);
    let order = "`arguments.order` must be one of [\"asc\",\"desc\"]";
    assert_eq!(message(json!({"query": "x", "order": "up"})), order);
    assert_eq!(message(json!(["x"])), "`arguments` must be an object, not an array");
}

#[test]
fn property_that_the_schema_does_not_name_is_refused() {
    let message = check(query(), json!({"query": "x", "qeury": 1})).unwrap_err();
    let expected = "`arguments` has `qeury`, which the tool does not know; it takes `query`, \
                    `limits`, `order`";
    assert_eq!(message, expected);
    let combined = json!({"type": "object", "properties": {"a": {}},
                          "allOf": [{"properties": {"b": {}}}]});
    assert_eq!(check(combined.clone(), json!({"a": 1, "b": 2})), Ok(()));
    assert!(check(combined, json!({"a": 1, "c": 2})).is_err());
    let open = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true});
    assert_eq!(check(open, json!({"c": 2})), Ok(()));
    assert_eq!(check(json!({"type": "object"}), json!({"anything": 1})), Ok(()));
}

#[test]
fn messages_are_short_and_printable_for_any_value() {
    let key = "\u{1b}[2J\n".repeat(1000);
    let long = check(query(), json!({"query": "x", &key: 1})).unwrap_err();
    assert!(long.chars().count() <= MAX_MESSAGE, "{}", long.len());
    assert!(long.chars().all(stockade_policy::is_harmless), "{long:?}");
    let large = json!({"query": "x", "limits": vec!["no"; 100_000]});
    assert_eq!(
        check(query(), large).unwrap_err(),
        "the arguments do not fit the schema of the tool"
    );
}

#[test]
fn local_references_are_followed_and_remote_ones_are_not_fetched() {
    for reference in ["https://example.com/x.json", "file:///etc/passwd", "other.json#/x"] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
        let message = Schema::compile(&schema).unwrap_err();
        assert!(message.contains("has a reference that is not local"), "{message}");
    }
    let inside = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}},
                        "$defs": {"n": {"type": "integer"}}});
    assert!(check(inside.clone(), json!({"a": 1})).is_ok());
    assert!(check(inside, json!({"a": "1"})).is_err());
}

#[test]
fn invalid_schema_names_the_location() {
    let message = Schema::compile(&json!({"type": "objekt"})).unwrap_err();
    assert!(message.starts_with("is not a JSON Schema, at `schema.type`"), "{message}");
    assert!(closed(json!({"properties": {}})).unwrap_err().contains("type: object"));
    assert!(closed(json!(true)).unwrap_err().contains("not a mapping"));
    let deep = (0..100).fold(json!({}), |inner, _| json!({"not": inner}));
    assert_eq!(Schema::compile(&deep).unwrap_err(), "is nested more than 64 levels deep");
}

#[test]
fn patterns_match_in_linear_time() {
    let pattern = |pattern: &str| json!({"type": "object", "properties": {"s": {"type": "string", "pattern": pattern}}});
    let message = Schema::compile(&pattern("(?=a)b")).unwrap_err();
    assert!(message.contains("pattern at `schema.properties.s.pattern`"), "{message}");
    assert!(message.contains("look-around"), "{message}");
    assert!(Schema::compile(&pattern(r"(a)\1")).is_err());
    let started = Instant::now();
    let evil = json!({"s": "a".repeat(100_000) + "!"});
    assert!(check(pattern("^(a+)+$"), evil).is_err());
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn deepest_value_is_checked_by_a_recursive_schema_on_an_ordinary_stack() {
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}},
                        "$defs": {"tree": {"anyOf": [
                            {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                            {"type": "integer"}]}}});
    let run = move || {
        let value = (0..511).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(check(schema.clone(), json!({"a": value})), Ok(()));
        let wrong = (0..511).fold(json!("x"), |inner, _| json!([inner]));
        assert!(check(schema, json!({"a": wrong})).is_err());
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn unlimited_alternatives_are_refused_without_explanation() {
    let node = |kind: &str| {
        json!({"type": "object", "required": ["kind", "args"], "properties": {
        "kind": {"const": kind}, "args": {"type": "array", "items": {"$ref": "#/$defs/node"}}}})
    };
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"oneOf": [node("and"), node("or"), node("not")]}},
    }))
    .expect("a schema");
    let mut tree = json!({"kind": "none", "args": []});
    for _ in 0..40 {
        tree = json!({"kind": "and", "args": [tree]});
    }
    let refused = schema.check(&json!({"tree": tree}), 1000, "arguments");
    assert_eq!(refused, Err("the arguments do not fit the schema of the tool".to_owned()));
}

#[test]
fn input_schema_that_cannot_be_closed_is_refused() {
    let open = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"x": {"type": "string"}},
        "allOf": [{"properties": {"y": {"type": "integer"}}}],
    });
    let refused = closed(open.clone()).expect_err("it does not decide about others");
    assert!(refused.contains("additionalProperties"), "{refused}");
    let Value::Object(mut decided) = open else { unreachable!() };
    decided.insert("additionalProperties".to_owned(), Value::Bool(true));
    assert!(closed(Value::Object(decided)).is_ok());
}

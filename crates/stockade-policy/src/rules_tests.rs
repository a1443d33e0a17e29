use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::context::{Act, Context};

fn condition(field: &str, operator: Operator, value: Value) -> Condition {
    Condition::new(field.to_owned(), operator, value).unwrap()
}

/// Whether the operator holds between a field of the caller's context and a value; `None` if they
/// cannot be compared.
fn holds(field: &Value, operator: Operator, value: &Value) -> Option<bool> {
    let mut context = Context::default();
    context.insert("x", field.clone()).unwrap();
    let facts = Facts::new(Act::Tool { name: "t", arguments: None }, &context);
    condition("x", operator, value.clone()).holds(&facts).ok()
}

#[test]
fn every_operator_with_every_kind_of_field() {
    use Operator::{Contains, Eq, Gt, Gte, In, Lt, Lte, Matches, Ne, NotIn};
    const YES: Option<bool> = Some(true);
    const NO: Option<bool> = Some(false);
    const ERROR: Option<bool> = None;
    // For each operator a value, then the answers for the fields "b", 2, 2.0, true, ["b"], {}.
    let fields = [json!("b"), json!(2), json!(2.0), json!(true), json!(["b"]), json!({})];
    let table = [
        (Eq, json!("b"), [YES, NO, NO, NO, NO, NO]),
        (Eq, json!(2), [NO, YES, YES, NO, NO, NO]),
        (Eq, json!(true), [NO, NO, NO, YES, NO, NO]),
        (Eq, json!(["b"]), [NO, NO, NO, NO, YES, NO]),
        (Ne, json!("b"), [NO, YES, YES, YES, YES, YES]),
        (Ne, json!(2.0), [YES, NO, NO, YES, YES, YES]),
        (Gt, json!("a"), [YES, ERROR, ERROR, ERROR, ERROR, ERROR]),
        (Gt, json!(2), [ERROR, NO, NO, ERROR, ERROR, ERROR]),
        (Gt, json!(1.5), [ERROR, YES, YES, ERROR, ERROR, ERROR]),
        (Lt, json!("c"), [YES, ERROR, ERROR, ERROR, ERROR, ERROR]),
        (Lt, json!(2), [ERROR, NO, NO, ERROR, ERROR, ERROR]),
        (Gte, json!("b"), [YES, ERROR, ERROR, ERROR, ERROR, ERROR]),
        (Gte, json!(2), [ERROR, YES, YES, ERROR, ERROR, ERROR]),
        (Lte, json!("b"), [YES, ERROR, ERROR, ERROR, ERROR, ERROR]),
        (Lte, json!(1), [ERROR, NO, NO, ERROR, ERROR, ERROR]),
        (In, json!(["a", "b", 2]), [YES, YES, YES, NO, NO, NO]),
        (In, json!([]), [NO, NO, NO, NO, NO, NO]),
        (In, json!([["b"]]), [NO, NO, NO, NO, YES, NO]),
        (NotIn, json!(["a", "b", 2]), [NO, NO, NO, YES, YES, YES]),
        (NotIn, json!([]), [YES, YES, YES, YES, YES, YES]),
        (Matches, json!("^(b|2|true)"), [YES, YES, YES, YES, ERROR, ERROR]),
        (Matches, json!("^x"), [NO, NO, NO, NO, ERROR, ERROR]),
        (Contains, json!("b"), [YES, ERROR, ERROR, ERROR, YES, ERROR]),
        (Contains, json!(2), [ERROR, ERROR, ERROR, ERROR, NO, ERROR]),
    ];
    for (operator, value, answers) in table {
        let found = fields.clone().map(|field| holds(&field, operator, &value));
        assert_eq!(found, answers, "{} {value}", operator.as_str());
    }
}

#[test]
fn a_missing_or_null_field_matches_nothing_with_any_operator() {
    let values = [
        json!("b"),
        json!("b"),
        json!(1),
        json!(1),
        json!(1),
        json!(1),
        json!([]),
        json!([]),
        json!(""),
        json!("b"),
    ];
    let mut context = Context::default();
    context.insert("null", Value::Null).unwrap();
    let facts = Facts::new(Act::Tool { name: "t", arguments: None }, &context);
    for (operator, value) in Operator::ALL.into_iter().zip(values) {
        for field in ["absent", "null", "code", "agent_id"] {
            let found = condition(field, operator, value.clone()).holds(&facts);
            assert_eq!(found, Ok(false), "{field} {}", operator.as_str());
        }
    }
}

#[test]
fn large_whole_numbers_are_compared_exactly() {
    let (a, b) = (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64));
    assert_eq!(holds(&a, Operator::Gt, &b), Some(true));
    assert_eq!(holds(&a, Operator::Eq, &b), Some(false));
    assert_eq!(holds(&json!(u64::MAX), Operator::Gt, &json!(i64::MAX)), Some(true));
}

#[test]
fn text_is_never_a_number() {
    assert_eq!(holds(&json!("2"), Operator::Eq, &json!(2)), Some(false));
    assert_eq!(holds(&json!("10"), Operator::Gt, &json!(9)), None);
    assert_eq!(holds(&json!("10"), Operator::Gt, &json!("9")), Some(false));
}

#[test]
fn a_comparison_that_fails_names_field_operator_and_type() {
    let mut context = Context::default();
    context.insert("size", json!([1])).unwrap();
    let facts = Facts::new(Act::Tool { name: "t", arguments: None }, &context);
    let error = condition("size", Operator::Gt, json!(1)).holds(&facts).unwrap_err();
    assert_eq!(error.to_string(), "the field `size` cannot be compared with `gt`: it is a list");
}

#[test]
fn operators_refuse_values_they_cannot_use() {
    for (operator, value) in [
        (Operator::Eq, json!(null)),
        (Operator::Ne, json!(null)),
        (Operator::Ne, json!({})),
        (Operator::Gt, json!(true)),
        (Operator::Lt, json!([1])),
        (Operator::Gte, json!(null)),
        (Operator::Lte, json!(false)),
        (Operator::In, json!("a")),
        (Operator::NotIn, json!(1)),
        (Operator::Matches, json!(1)),
        (Operator::Matches, json!(["a"])),
        (Operator::Contains, json!("")),
        (Operator::Contains, json!(null)),
    ] {
        let refused = Condition::new("x".to_owned(), operator, value.clone());
        let wrong = matches!(refused, Err(ConditionError::WrongValue { .. }));
        assert!(wrong, "{} {value}", operator.as_str());
    }
}

#[test]
fn expressions_beyond_linear_time_are_refused() {
    for text in
        [r"a(?=b)", r"a(?!b)", r"(?<=a)b", r"(?<!a)b", r"(a)\1", r"(?P<x>a)(?P=x)", "(", "[z-a]"]
    {
        let refused = Condition::new("code".to_owned(), Operator::Matches, json!(text));
        let Err(ConditionError::BadRegex { reason }) = refused else { panic!("{text} compiles") };
        assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
    }
    for text in ["a{1000}{1000}", "(a{100}){100}{100}", &"a|".repeat(4000), r"(\w{1,60}){1,60}"] {
        let refused = Condition::new("code".to_owned(), Operator::Matches, json!(text));
        assert_eq!(refused.err(), Some(ConditionError::LargeRegex), "{text}");
    }
    let nested = format!("{}a{}", "(".repeat(500), ")".repeat(500));
    assert!(Condition::new("code".to_owned(), Operator::Matches, json!(nested)).is_err());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn expressions_that_explode_elsewhere_take_linear_time() {
    let context = Context::default();
    let text = "a".repeat(1_000_000);
    let facts = Facts::new(Act::Code { code: &text, language: "python" }, &context);
    for expression in ["(a+)+$", "(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)*b", "a*a*a*a*a*b"] {
        let condition = condition("code", Operator::Matches, json!(expression));
        let start = Instant::now();
        let found = condition.holds(&facts);
        assert!(start.elapsed() < Duration::from_secs(1), "{expression}: {:?}", start.elapsed());
        assert_eq!(found, Ok(expression.ends_with('$')), "{expression}");
    }
}

#[test]
fn conditions_are_equal_if_all_their_parts_are() {
    let one = condition("code", Operator::Matches, json!("a+"));
    assert_eq!(one, condition("code", Operator::Matches, json!("a+")));
    assert_ne!(one, condition("code", Operator::Matches, json!("a")));
    assert_ne!(one, condition("code", Operator::Contains, json!("a+")));
    assert_ne!(one, condition("command", Operator::Matches, json!("a+")));
}

#[test]
fn every_mistake_of_a_rule_is_reported() {
    let text = "rules:\n  - name: r\n    condition: { field: cod, operator: is, value: [1] }\n    \
                action: no\n    priority: high\n    dynamic_condition: { type: x, timezone: y }\n";
    let errors = crate::Policy::parse_str("p", text, std::path::Path::new("/")).unwrap_err();
    let places: Vec<(usize, usize)> =
        errors.diagnostics().iter().map(|found| (found.line, found.column)).collect();
    assert_eq!(places, [(3, 25), (3, 40), (4, 13), (5, 15), (6, 32), (6, 45)]);
}

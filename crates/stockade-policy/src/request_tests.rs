use proptest::prelude::*;

use super::*;

fn path(text: &str) -> UrlPath {
    UrlPath::parse(text).unwrap_or_else(|error| panic!("{text} {error}"))
}

fn pattern(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap_or_else(|error| panic!("{text} {error}"))
}

#[test]
fn methods_are_upper_case_tokens() {
    for text in ["GET", "POST", "DELETE", "M-SEARCH", "X2"] {
        assert_eq!(Method::parse(text).map(|method| method.to_string()), Ok(text.to_owned()));
    }
    for (text, error) in [
        ("", MethodError::Empty),
        ("GET ", MethodError::Malformed),
        ("GE\rT", MethodError::Malformed),
        ("GÉT", MethodError::Malformed),
        ("G_T", MethodError::Malformed),
        ("CONNECT", MethodError::Connect),
        ("TRACE", MethodError::Trace),
    ] {
        assert_eq!(Method::parse(text), Err(error), "{text:?}");
    }
    assert_eq!(Method::parse("get").unwrap_err().remedy(), "did you mean `GET`?");
    assert_eq!(Method::parse(&"A".repeat(33)), Err(MethodError::Malformed));
}

#[test]
fn ordinary_paths_are_kept_and_the_query_is_left_out() {
    for (target, expected) in [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("/a?x=/../..//", "/a"),
        ("/a%20b", "/a%20b"),
        ("/a%c3%bc", "/a%C3%BC"),
        ("/100%25", "/100%25"),
        ("/a...b/...", "/a...b/..."),
        ("/v1/models:list,@$&'()+=!~", "/v1/models:list,@$&'()+=!~"),
        ("/%3f%23%3a", "/%3F%23%3A"),
    ] {
        assert_eq!(path(target).as_str(), expected, "{target}");
    }
}

#[test]
fn paths_that_servers_read_differently_are_refused() {
    let needless = |character| PathError::NeedlessEscape { character };
    for (target, error) in [
        ("", PathError::NotAbsolute),
        ("a", PathError::NotAbsolute),
        ("*", PathError::NotAbsolute),
        ("http://a/", PathError::NotAbsolute),
        ("//", PathError::EmptySegment),
        ("//a", PathError::EmptySegment),
        ("/a#/../b", PathError::ForbiddenCharacter { character: '#' }),
        ("/a//b", PathError::EmptySegment),
        ("/a//", PathError::EmptySegment),
        ("/.", PathError::DotSegment),
        ("/..", PathError::DotSegment),
        ("/a/../b", PathError::DotSegment),
        ("/a/./b", PathError::DotSegment),
        ("/a/..?x", PathError::DotSegment),
        ("/a/%2e%2e/b", needless('.')),
        ("/a/.%2E/b", needless('.')),
        ("/%61dmin", needless('a')),
        ("/%7Eroot", needless('~')),
        ("/a%2fb", PathError::EncodedSeparator),
        ("/a%2Fb", PathError::EncodedSeparator),
        ("/a%5cb", PathError::EncodedSeparator),
        ("/a%5Cb", PathError::EncodedSeparator),
        ("/a\\b", PathError::Backslash),
        ("/a%252e%252e", PathError::DoubleEscape),
        ("/a%252F", PathError::DoubleEscape),
        ("/a%255c", PathError::DoubleEscape),
        ("/a%25252e", PathError::DoubleEscape),
        ("/a%00", PathError::EncodedControl),
        ("/a%0d%0a", PathError::EncodedControl),
        ("/a%7f", PathError::EncodedControl),
        ("/a%c2%80", PathError::EncodedControl),
        ("/a;b=c", PathError::MatrixParameter),
        ("/..;/a", PathError::MatrixParameter),
        ("/..%3b/a", PathError::MatrixParameter),
        ("/a%", PathError::BadEscape),
        ("/a%2", PathError::BadEscape),
        ("/a%zz", PathError::BadEscape),
        ("/a%+1", PathError::BadEscape),
        ("/%c0%ae%c0%ae/", PathError::NotText),
        ("/%c0%af", PathError::NotText),
        ("/%e0%80%af", PathError::NotText),
        ("/%ff", PathError::NotText),
        ("/a b", PathError::ForbiddenCharacter { character: ' ' }),
        ("/a\tb", PathError::ForbiddenCharacter { character: '\t' }),
        ("/a\0", PathError::ForbiddenCharacter { character: '\0' }),
        ("/ü", PathError::ForbiddenCharacter { character: 'ü' }),
        ("/\u{ff0e}\u{ff0e}/", PathError::ForbiddenCharacter { character: '\u{ff0e}' }),
    ] {
        assert_eq!(UrlPath::parse(target), Err(error), "{target:?}");
    }
    let longest = format!("/{}", "a".repeat(8191));
    assert_eq!(path(&longest).as_str(), longest);
    assert_eq!(UrlPath::parse(&format!("{longest}a")), Err(PathError::TooLong { maximum: 8192 }));
}

#[test]
fn path_patterns_match_by_segment() {
    for (text, target, expected) in [
        ("/", "/", true),
        ("/", "/a", false),
        ("/a", "/a", true),
        ("/a", "/a/", false),
        ("/a", "/A", false),
        ("/a/", "/a", false),
        ("/repos/**", "/repos", true),
        ("/repos/**", "/repos/", true),
        ("/repos/**", "/repos/a", true),
        ("/repos/**", "/repos/a/b/", true),
        ("/repos/**", "/repository", false),
        ("/repos/**", "/x/repos/a", false),
        ("/**", "/", true),
        ("/**", "/a/b", true),
        ("/*", "/a", true),
        ("/*", "/", false),
        ("/*", "/a/b", false),
        ("/a/*", "/a/", false),
        ("/a/*/c", "/a/b/c", true),
        ("/a/*/c", "/a/b/b/c", false),
        ("/a/*/c", "/a/c", false),
        ("/v*", "/v", true),
        ("/v*", "/v1", true),
        ("/v*", "/w1", false),
        ("/v*", "/v1/x", false),
        ("/v*/x*y", "/v1/xzzy", true),
        ("/a*b*c", "/aXbYbZc", true),
        ("/a*b*c", "/aXbYbZcd", false),
        ("/**/c", "/c", true),
        ("/**/c", "/a/b/c", true),
        ("/**/c", "/a/b/c/d", false),
        ("/a/**/c/**/d", "/a/c/c/x/d", true),
        ("/a/**/c/**/d", "/a/x/d", false),
        ("/a/**/*", "/a", false),
        ("/a/**/*", "/a/", false),
        ("/a/**/*", "/a/b/c", true),
        ("/a%c3%bc", "/a%C3%BC", true),
        ("/a/*", "/a/b?c=d", true),
    ] {
        assert_eq!(pattern(text).matches(&path(target)), expected, "{text} on {target}");
    }
}

#[test]
fn ambiguous_patterns_are_refused() {
    for (text, error) in [
        ("repos/**", PathError::NotAbsolute),
        ("/a?b", PathError::Query),
        ("/a#b", PathError::Query),
        ("/a**", PathError::PartialDoubleWildcard),
        ("/***", PathError::PartialDoubleWildcard),
        ("/a/../**", PathError::DotSegment),
        ("/a//b", PathError::EmptySegment),
        ("/%2e/**", PathError::NeedlessEscape { character: '.' }),
        ("/a%2*", PathError::BadEscape),
    ] {
        assert_eq!(PathPattern::parse(text), Err(error), "{text}");
    }
    assert!(PathPattern::parse(&"/*".repeat(16)).is_ok());
    let too_many = Err(PathError::TooManyWildcards { maximum: 16 });
    assert_eq!(PathPattern::parse(&"/*".repeat(17)), too_many);
    assert_eq!(PathPattern::parse(&format!("/{}", "a*".repeat(17))), too_many);
    let too_long = Err(PathError::TooLong { maximum: 1024 });
    assert_eq!(PathPattern::parse(&format!("/{}", "a".repeat(1024))), too_long);
}

#[test]
fn wider_patterns_cover_narrower_ones() {
    for (wide, narrow, expected) in [
        ("/a", "/a", true),
        ("/**", "/a/*/v*/**", true),
        ("/**", "/", true),
        ("/a/**", "/a", true),
        ("/a/**", "/a/", true),
        ("/a/**", "/a/b/**", true),
        ("/a/**", "/b/**", false),
        ("/a/b/**", "/a/**", false),
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/v*", true),
        ("/a/*", "/a/", false),
        ("/a/*", "/a/**", false),
        ("/a/b", "/a/*", false),
        ("/v*", "/v1", true),
        ("/v*", "/v*", true),
        ("/v*", "/*", false),
        ("/**/c", "/a/**/c", true),
        ("/a/**/c", "/**/c", false),
        ("/a/**/*", "/a/**", false),
    ] {
        assert_eq!(pattern(wide).covers(&pattern(narrow)), expected, "{wide} over {narrow}");
    }
}

#[test]
fn a_hostile_path_cannot_make_matching_slow() {
    let steps = std::cell::Cell::new(0usize);
    let stars = format!("{}b", "a*".repeat(16));
    let text = "a".repeat(8191);
    let found = path_pattern::glob(
        stars.as_bytes(),
        text.as_bytes(),
        |byte| *byte == b'*',
        |one, two| {
            steps.set(steps.get() + 1);
            one == two
        },
    );
    assert!(!found);
    assert!(steps.get() <= stars.len() * text.len(), "{} steps", steps.get());
    let deep = pattern(&format!("{}/b", "/**/a".repeat(16)));
    assert!(!deep.matches(&path(&"/a".repeat(4095))));
}

#[test]
fn methods_paths_and_patterns_serialize_as_text() {
    let values = (Method::parse("GET").unwrap(), path("/a%c3%bc?q"), pattern("/a/*/v*/**"));
    let json = serde_json::to_string(&values).unwrap();
    assert_eq!(json, "[\"GET\",\"/a%C3%BC\",\"/a/*/v*/**\"]");
}

/// A pattern's meaning by plain recursion, for comparison.
fn matches_slowly(pattern: &[&str], segments: &[&str]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return segments.is_empty() };
    if *first == "**" {
        return (0..=segments.len()).any(|taken| matches_slowly(rest, &segments[taken..]));
    }
    let Some((segment, others)) = segments.split_first() else { return false };
    let fits = match first.split_once('*') {
        None => first == segment,
        Some(("", "")) => !segment.is_empty(),
        Some((start, end)) => {
            segment.len() >= start.len() + end.len()
                && segment.starts_with(start)
                && segment.ends_with(end)
        }
    };
    fits && matches_slowly(rest, others)
}

fn any_pattern_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof!["a", "b", "ab", "\\*", "\\*\\*", "a\\*", "\\*b", "a\\*b"],
        1..6,
    )
    .prop_map(|segments| format!("/{}", segments.join("/")))
}

fn any_path_text() -> impl Strategy<Value = String> {
    "(/[ab]{1,3}){1,5}/?"
}

proptest! {
    #[test]
    fn matching_agrees_with_its_definition(text in any_pattern_text(), target in any_path_text()) {
        let parts: Vec<&str> = text.split('/').skip(1).collect();
        let segments: Vec<&str> = target.split('/').skip(1).collect();
        let expected = matches_slowly(&parts, &segments);
        prop_assert_eq!(pattern(&text).matches(&path(&target)), expected);
    }

    #[test]
    fn covering_is_never_claimed_wrongly(
        wide in any_pattern_text(), narrow in any_pattern_text(), target in any_path_text()
    ) {
        let (wide, narrow, target) = (pattern(&wide), pattern(&narrow), path(&target));
        if wide.covers(&narrow) && narrow.matches(&target) {
            prop_assert!(wide.matches(&target));
        }
        prop_assert!(narrow.covers(&narrow));
        prop_assert_eq!(PathPattern::parse(&narrow.to_string()), Ok(narrow));
    }

    #[test]
    fn arbitrary_text_never_panics_and_parses_again(text in "/[%2e5cF/.;a*]{0,20}|\\PC{0,40}") {
        let _ = Method::parse(&text);
        let _ = PathPattern::parse(&text);
        if let Ok(read) = UrlPath::parse(&text) {
            prop_assert_eq!(UrlPath::parse(read.as_str()), Ok(read));
        }
    }
}

//! No source is longer than a person reads in one sitting.

use anyhow::Result;

use super::Finding;
use crate::tree::Tree;

const MAX_LINES: usize = 600;

/// Checks every Rust source that is not a test.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.rust_files().filter(|file| !is_test(file)) {
        let lines = lines_without_tests(&tree.text(file)?.unwrap_or_default());
        if lines > MAX_LINES {
            findings.push(Finding {
                file: file.to_owned(),
                line: MAX_LINES + 1,
                what: format!("{lines} lines without tests, over {MAX_LINES}"),
                remedy: "split the file by subject before adding to it",
            });
        }
    }
    Ok(findings)
}

fn is_test(file: &str) -> bool {
    file.ends_with("_tests.rs") || file.split('/').any(|part| part == "tests")
}

/// The lines before a `#[cfg(test)] mod … { … }` at the end of the file; otherwise all.
fn lines_without_tests(source: &str) -> usize {
    let lines: Vec<&str> = source.trim_end().lines().collect();
    let opens = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    let Some(start) = lines.windows(2).rposition(opens) else { return lines.len() };
    // The first brace in the first column closes the module; it must be the last line.
    let end = lines[start..].iter().position(|line| *line == "}").map(|offset| start + offset);
    if end == Some(lines.len() - 1) { start } else { lines.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_test_module_does_not_count() {
        let source = "fn a() {\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n";
        assert_eq!(lines_without_tests(source), 3);
    }

    #[test]
    fn test_module_with_code_after_it_counts() {
        let source = "#[cfg(test)]\nmod tests {\n}\n\nfn a() {\n}\n";
        assert_eq!(lines_without_tests(source), 6);
    }

    #[test]
    fn test_module_in_another_file_does_not_change_the_count() {
        assert_eq!(lines_without_tests("fn a() {}\n\n#[cfg(test)]\nmod tests;\n"), 4);
    }

    #[test]
    fn test_files_are_recognised_by_name_and_folder() {
        assert!(is_test("crates/a/src/frame_tests.rs") && is_test("crates/a/tests/real.rs"));
        assert!(!is_test("crates/a/src/tests_of_faith.rs"));
    }
}

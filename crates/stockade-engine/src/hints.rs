//! Advice after a failure, read from what a program printed. Nothing is decided by it.

use std::path::Path;

use stockade_policy::{Access, GuestPath, Policy, is_harmless};

use crate::request::Advice;

/// The most lines of advice.
const MAX_HINTS: usize = 3;

/// The most lines, from the last one up, and the most paths of a line that are looked at.
const MAX_LINES: usize = 64;
const MAX_PATHS: usize = 8;

/// What the kernel's refusals look like in messages, in lower case.
const MISSING: [&str; 3] = ["no such file or directory", "enoent", "cannot open"];
const REFUSED: [&str; 5] =
    ["permission denied", "eacces", "read-only file system", "erofs", "operation not permitted"];

/// Advice for the end of a program's errors. `host_file` says whether a file is on the host.
pub(crate) fn hints(
    tail: &[u8],
    policy: &Policy,
    advice: Advice,
    host_file: Option<fn(&Path) -> bool>,
) -> Vec<String> {
    let text = String::from_utf8_lossy(tail);
    let mut found = Vec::new();
    for line in text.lines().rev().filter(|line| !is_frame(line)).take(MAX_LINES) {
        if found.len() == MAX_HINTS {
            break;
        }
        let line_hints = [python_module(line), node_module(line)].into_iter().flatten();
        let paths = host_file.map(|exists| hidden_paths(line, policy, advice, exists));
        for hint in line_hints.chain(paths.into_iter().flatten()) {
            if !found.contains(&hint) && found.len() < MAX_HINTS {
                found.push(hint);
            }
        }
    }
    found
}

/// Lines of a traceback name files of the interpreter, which are visible.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("File \"") || line.starts_with("at ")
}

fn python_module(line: &str) -> Option<String> {
    let name = quoted_after(line, "No module named ")?;
    Some(format!(
        "the Python that ran has no module `{name}`; --python PATH names another one, and an \
         activated virtual environment is used by itself"
    ))
}

fn node_module(line: &str) -> Option<String> {
    let name = quoted_after(line, "Cannot find module ")?;
    Some(format!(
        "Node found no module `{name}`; --workspace DIR shows a project with its node_modules"
    ))
}

/// The name in quotes that follows some words; nothing that could not be a name.
fn quoted_after<'l>(line: &'l str, words: &str) -> Option<&'l str> {
    let rest = &line[line.find(words)? + words.len()..];
    let name = rest.strip_prefix('\'')?.split('\'').next()?;
    let is_plain = |character: char| character.is_alphanumeric() || "_.-/@".contains(character);
    (!name.is_empty() && name.len() <= 200 && name.chars().all(is_plain)).then_some(name)
}

/// Paths in a refusal that are on the host, are not to be had inside, and could be mounted.
fn hidden_paths(
    line: &str,
    policy: &Policy,
    advice: Advice,
    exists: fn(&Path) -> bool,
) -> Vec<String> {
    let lower = line.to_lowercase();
    let is_refused = REFUSED.iter().any(|words| lower.contains(words));
    if !is_refused && !MISSING.iter().any(|words| lower.contains(words)) {
        return Vec::new();
    }
    let allows = |path: &str, access| {
        GuestPath::parse(path).is_ok_and(|guest| policy.judge_path(&guest, access).allows())
    };
    let hint = |path: &str| {
        let (access, state) = if !allows(path, Access::Read) {
            (Access::Read, "is not visible inside")
        } else if is_refused && !allows(path, Access::Write) {
            (Access::Write, "is read-only inside")
        } else {
            return None;
        };
        (can_be_mounted(path, access) && exists(Path::new(path))).then(|| {
            format!("{path} exists on the host and {state}; {}", way(path, access, advice))
        })
    };
    absolute_paths(line).into_iter().take(MAX_PATHS).filter_map(hint).collect()
}

/// What would show a path inside.
fn way(path: &str, access: Access, advice: Advice) -> String {
    match (advice, access) {
        (Advice::Flags, Access::Read) => format!("--mount {path}:{path} shows it read-only"),
        (Advice::Flags, Access::Write) => format!("--mount {path}:{path}:rw makes it writable"),
        (Advice::Clauses, Access::Read) => {
            "naming it in filesystem.read of the policy shows it read-only".to_owned()
        }
        (Advice::Clauses, Access::Write) => {
            "naming it in filesystem.write of the policy makes it writable".to_owned()
        }
    }
}

/// Whether a policy may mount the path where it stands; never so for keys and system files.
fn can_be_mounted(path: &str, access: Access) -> bool {
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!("filesystem: {{ {}: [ \"{escaped}\" ] }}", access.as_str());
    Policy::parse_str("a hint", &text, Path::new("/")).is_ok()
}

/// Absolute paths in a line: in quotes, or between blanks and colons.
fn absolute_paths(line: &str) -> Vec<&str> {
    let separators =
        |character: char| character.is_whitespace() || "'\"`:;,()[]<>|=".contains(character);
    let mut paths: Vec<&str> = Vec::new();
    for word in line.split(['\'', '"']).chain(line.split(separators)) {
        let is_path = word.len() > 1
            && word.starts_with('/')
            && !word.starts_with("//")
            && !word.contains(':')
            && word.chars().all(is_harmless);
        if is_path && !paths.contains(&word) {
            paths.push(word);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str, policy: &str) -> Vec<String> {
        let policy = Policy::parse_str("p", policy, Path::new("/srv")).unwrap();
        hints(text.as_bytes(), &policy, Advice::Flags, Some(|_| true))
    }

    const MISSING_FILE: &str =
        "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/data.csv'\n";

    #[test]
    fn missing_module_names_the_flag_that_chooses_a_python() {
        let found = ask("ModuleNotFoundError: No module named 'numpy'\n", "{}");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`numpy`") && found[0].contains("--python PATH"), "{found:?}");
        let found = ask("Error: Cannot find module 'left-pad'\n", "{}");
        assert!(found[0].contains("`left-pad`") && found[0].contains("--workspace"), "{found:?}");
    }

    #[test]
    fn host_file_that_is_not_visible_names_the_flag_that_shows_it() {
        let expected = "/home/me/data.csv exists on the host and is not visible inside; \
                        --mount /home/me/data.csv:/home/me/data.csv shows it read-only";
        assert_eq!(ask(MISSING_FILE, "{}"), [expected]);
        let shell = "cat: /home/me/data.csv: No such file or directory\n";
        assert_eq!(ask(shell, "{}"), [expected]);
        let node = "Error: ENOENT: no such file or directory, open '/home/me/data.csv'\n";
        assert_eq!(ask(node, "{}"), [expected]);
    }

    #[test]
    fn policy_file_is_pointed_to_where_flags_do_not_help() {
        let policy = Policy::parse_str("p", "{}", Path::new("/srv")).unwrap();
        let found = hints(MISSING_FILE.as_bytes(), &policy, Advice::Clauses, Some(|_| true));
        assert!(found[0].contains("filesystem.read") && !found[0].contains("--mount"), "{found:?}");
    }

    #[test]
    fn file_that_is_read_only_inside_names_the_writable_mount() {
        let text = "PermissionError: [Errno 30] Read-only file system: '/data/out.txt'\n";
        let found = ask(text, "filesystem: {read: [/data]}");
        assert_eq!(
            found,
            ["/data/out.txt exists on the host and is read-only inside; \
              --mount /data/out.txt:/data/out.txt:rw makes it writable"]
        );
    }

    #[test]
    fn nothing_is_said_of_keys_system_files_scratch_space_or_what_is_not_there() {
        for path in ["/etc/shadow", "/home/me/.ssh/id_rsa", "/tmp/x", "/proc/1/mem", "/", "//x"] {
            let text = format!("No such file or directory: '{path}'");
            assert_eq!(ask(&text, "{}"), [""; 0], "{path}");
        }
        let policy = Policy::parse_str("p", "{}", Path::new("/srv")).unwrap();
        let bytes = MISSING_FILE.as_bytes();
        assert_eq!(hints(bytes, &policy, Advice::Flags, Some(|_| false)), [""; 0]);
        assert_eq!(hints(bytes, &policy, Advice::Flags, None), [""; 0]);
    }

    #[test]
    fn traceback_lines_and_words_without_a_refusal_give_no_hint() {
        let text = "  File \"/home/me/venv/a.py\", line 1, No such file or directory\n\
                    see /home/me/readme.txt\n";
        assert_eq!(ask(text, "{}"), [""; 0]);
    }

    #[test]
    fn hostile_text_gives_few_hints_and_none_that_drive_a_terminal() {
        let lines: String =
            (0..50).map(|n| format!("No such file or directory: '/home/{n}/x'\n")).collect();
        assert_eq!(ask(&lines, "{}").len(), MAX_HINTS);
        let foul = "No such file or directory: '/home/me/\u{1b}[2J'\nNo module named '\u{1b}'\n";
        assert_eq!(ask(foul, "{}"), [""; 0]);
    }
}

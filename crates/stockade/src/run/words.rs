//! Detects a program name in place of a script.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::shell::{shell_word, shown_words};

use crate::Problem;

/// Refuses a missing script if a program has that name: `run ls` means `run -- ls`.
pub(super) fn refuse_program(
    script: &str,
    arguments: &[String],
    options: &[OsString],
) -> Result<(), Problem> {
    let is_program = is_on_path(script, std::env::var_os("PATH").as_deref());
    if script.contains('/') || Path::new(script).exists() || !is_program {
        return Ok(());
    }
    let options = options.iter().map(|word| word.to_string_lossy().into_owned());
    let mut words = shown_words(options);
    words.push("--".to_owned());
    words.push(shell_word(script));
    words.extend(arguments.iter().map(|word| shell_word(word)));
    let message = format!("there is no script `{script}` here; it is a program");
    Err(Problem::new(message, format!("write `stockade run {}`", words.join(" "))))
}

fn is_on_path(name: &str, path: Option<&OsStr>) -> bool {
    let is_program = |file: &Path| {
        file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let path = path.unwrap_or_default();
    !name.is_empty() && std::env::split_paths(path).any(|place| is_program(&place.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_in_place_of_a_script_gets_the_corrected_command() {
        let arguments = ["-c".to_owned(), "echo 'a b' c".to_owned()];
        let options = ["--memory".into(), "64m".into()];
        let problem = refuse_program("sh", &arguments, &options).unwrap_err();
        assert_eq!(problem.message, "there is no script `sh` here; it is a program");
        let expected = r"write `stockade run --memory 64m -- sh -c 'echo '\''a b'\'' c'`";
        assert_eq!(problem.remedy, expected);
        for script in ["no-such-program", "/bin/sh", "", "-"] {
            assert!(refuse_program(script, &[], &[]).is_ok(), "{script}");
        }
    }
}

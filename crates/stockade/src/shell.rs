//! Quoting of commands for users to copy.

/// A word quoted for a shell.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain =
        |character: char| character.is_alphanumeric() || "_./-+@:,=%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

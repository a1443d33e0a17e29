//! Words of commands that a person can copy.

/// A word as a shell takes it.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain =
        |character: char| character.is_alphanumeric() || "_./-+@:,=%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

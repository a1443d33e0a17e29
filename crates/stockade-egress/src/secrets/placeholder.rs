//! Placeholders: random, of the same shape as a value, and without a part of it.

/// At least so many characters are random, so that no other text equals a placeholder.
const MIN_RANDOM: usize = 20;
/// The longest prefix that is kept, such as `sk-` or `ghp_`, which some clients check.
const MAX_PREFIX: usize = 8;

/// A placeholder for a value; `None` if the system gives no random bytes.
pub(super) fn like(value: &str) -> Option<String> {
    let prefix = public_prefix(value);
    let mut placeholder = prefix.to_owned();
    let shape: Vec<char> = value[prefix.len()..].chars().collect();
    let mut count = 0;
    for character in &shape {
        let random = match character {
            'a'..='z' => one_of(b"abcdefghijklmnopqrstuvwxyz")?,
            'A'..='Z' => one_of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")?,
            '0'..='9' => one_of(b"0123456789")?,
            // Kept: no encoding of a header, a URL or JSON changes these.
            '-' | '_' | '.' => {
                placeholder.push(*character);
                continue;
            }
            _ => one_of(b"abcdefghijklmnopqrstuvwxyz")?,
        };
        placeholder.push(random);
        count += 1;
    }
    while count < MIN_RANDOM {
        placeholder.push(one_of(b"abcdefghijklmnopqrstuvwxyz0123456789")?);
        count += 1;
    }
    Some(placeholder)
}

/// The kind of a key, up to its first separator: lower-case letters and then `-` or `_`, with
/// enough behind it that the prefix reveals nothing about the rest.
fn public_prefix(value: &str) -> &str {
    let Some(separator) = value.find(['-', '_']) else { return "" };
    let is_kind = separator > 0
        && separator < MAX_PREFIX
        && value[..separator].bytes().all(|byte| byte.is_ascii_lowercase())
        && value.len() - separator > MIN_RANDOM;
    if is_kind { &value[..=separator] } else { "" }
}

/// An unbiased choice.
fn one_of(choices: &[u8]) -> Option<char> {
    let count = u8::try_from(choices.len()).ok()?;
    let limit = u8::MAX - u8::MAX % count;
    loop {
        let mut byte = [0];
        graviola::random::fill(&mut byte).ok()?;
        if byte[0] < limit {
            return Some(char::from(choices[usize::from(byte[0] % count)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_and_known_prefix_are_kept_and_the_rest_is_random() {
        let value = "sk-proj-aB3dE6gH9jK2mN5pQ8sT1vW4";
        let (one, two) = (like(value).unwrap(), like(value).unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), value.len());
        assert!(one.starts_with("sk-"), "{one}");
        for (given, made) in value.chars().zip(one.chars()) {
            assert_eq!(given.is_ascii_digit(), made.is_ascii_digit());
            assert_eq!(given.is_ascii_uppercase(), made.is_ascii_uppercase());
        }
        assert!(!one.contains("aB3dE6"));
    }

    #[test]
    fn short_values_get_longer_placeholders_and_no_prefix() {
        let made = like("ab-12345").unwrap();
        assert!(made.len() > MIN_RANDOM, "{made}");
        assert_eq!(public_prefix("ab-12345"), "");
        assert!(made.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    }
}

//! The script inside, and what the host sends to it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::json;

/// What the script prints once no other program can trace it or read its memory, and before it
/// has the token.
pub const HELLO: &[u8] = b"\x1estockade context 1\n";

/// The file name of the script in messages of the interpreter.
pub const KERNEL_FILE: &str = "stockade_context.py";

/// What messages of one interpreter begin with; known only to it and to the host.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; Token::BYTES]);

impl Token {
    /// A byte that output rarely has, and sixteen random bytes in hexadecimal.
    const BYTES: usize = 33;

    /// The token with these random bytes.
    pub fn of(random: [u8; 16]) -> Token {
        let mut bytes = [0x1e; Token::BYTES];
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
        for (pair, byte) in bytes[1..].chunks_exact_mut(2).zip(random) {
            (pair[0], pair[1]) = (digit(byte >> 4), digit(byte & 15));
        }
        Token(bytes)
    }

    /// The bytes before each piece of a message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

/// One call.
#[derive(Clone, Debug, Serialize)]
pub struct Call<'c> {
    /// Its number, which its messages repeat.
    pub call: u64,
    /// The code.
    pub code: &'c str,
    /// Variables during the call.
    pub environment: &'c BTreeMap<String, String>,
}

/// The script with its parts.
pub fn kernel() -> String {
    let part = |text: &str| json!(text).to_string();
    // The parts are compiled when they are first needed: most calls show no figure.
    format!(
        "{}\n_PARTS.update(display={}, figures={}, charts={})\nmain()\n",
        include_str!("kernel/kernel.py"),
        part(include_str!("kernel/display.py")),
        part(include_str!("kernel/figures.py")),
        part(include_str!("kernel/charts.py")),
    )
}

/// The first frame to the script.
pub fn token_frame(token: &Token) -> Vec<u8> {
    framed(token.as_bytes())
}

/// The frame of a call.
pub fn call_frame(call: &Call<'_>) -> Vec<u8> {
    framed(json!(call).to_string().as_bytes())
}

/// A length, big endian, and that many bytes.
fn framed(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("code is at most 64 MiB long");
    [&length.to_be_bytes(), content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_its_random_bytes_in_hexadecimal_and_is_not_printed() {
        let token = Token::of([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(token.as_bytes(), b"\x1e000102030405060708090a0b0c0d0eff");
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn call_is_a_length_and_json() {
        let environment = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let frame = call_frame(&Call { call: 3, code: "x", environment: &environment });
        let (length, content) = frame.split_at(4);
        assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, content.len());
        assert_eq!(content, br#"{"call":3,"code":"x","environment":{"A":"1"}}"#);
    }
}

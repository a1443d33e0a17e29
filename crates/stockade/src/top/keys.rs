//! Keys, from the bytes that a terminal sends.

/// A key that does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Escape,
    /// Ctrl-C, which is a byte in raw mode.
    Interrupt,
    Character(char),
}

/// Joins the bytes of keys that arrive in parts.
#[derive(Default)]
pub(super) struct Keys {
    open: Vec<u8>,
}

impl Keys {
    /// The keys in what was read, and in what was read before.
    pub(super) fn of(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut rest = std::mem::take(&mut self.open);
        rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = &rest[..];
        while let Some((key, length)) = first(rest) {
            keys.extend(key);
            rest = &rest[length..];
        }
        self.open = rest.to_vec();
        keys
    }
}

/// The first key, if it is one of ours, and its length; `None` if more bytes are needed.
fn first(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let (byte, rest) = bytes.split_first()?;
    let key = match byte {
        0x1b => return Some(escape(rest)),
        b'\r' | b'\n' => Key::Enter,
        0x03 => Key::Interrupt,
        b' '..=b'~' => Key::Character(char::from(*byte)),
        _ => return Some((None, 1)),
    };
    Some((Some(key), 1))
}

/// A sequence after the escape byte. A terminal sends it in one piece, so the byte alone is the key
/// Escape.
fn escape(rest: &[u8]) -> (Option<Key>, usize) {
    let Some(b'[' | b'O') = rest.first() else { return (Some(Key::Escape), 1) };
    let is_final = |byte: &u8| (0x40..=0x7e).contains(byte);
    let Some(end) = rest[1..].iter().position(is_final) else { return (None, 1 + rest.len()) };
    let key = match (&rest[1..=end], rest[end + 1]) {
        ([], b'A') => Some(Key::Up),
        ([], b'B') => Some(Key::Down),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        _ => None,
    };
    (key, end + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_bytes() {
        let of = |bytes: &[u8]| Keys::default().of(bytes);
        assert_eq!(of(b"q"), [Key::Character('q')]);
        assert_eq!(of(b"\x1b[A\x1bOB\r"), [Key::Up, Key::Down, Key::Enter]);
        assert_eq!(of(b"\x1b[5~\x1b[6~"), [Key::PageUp, Key::PageDown]);
        assert_eq!(of(b"\x1b"), [Key::Escape]);
        assert_eq!(of(b"\x03"), [Key::Interrupt]);
        // Not ours, and not taken for letters.
        assert_eq!(of(b"\x1b[1;5Ck"), [Key::Character('k')]);
        assert_eq!(of(b"\x1b[<0;1"), []);
        assert_eq!(of("ü".as_bytes()), []);
    }
}

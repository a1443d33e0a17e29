//! Separates messages from output on one stream.
//!
//! A message comes in pieces, each written in one atomic write, pipe(7): the token, one letter, the
//! length in four hexadecimal digits, and that many bytes. Everything else is output.

use crate::Token;

/// The longest message.
pub const MAX_MESSAGE_BYTES: usize = 32 << 20;

/// The bytes of a piece after the token and before its content: the letter and the length.
const HEAD_BYTES: usize = 5;

/// Something that came on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Output.
    Output(Vec<u8>),
    /// A whole message.
    Message(Vec<u8>),
    /// A message was longer than [`MAX_MESSAGE_BYTES`] and is dropped.
    TooLong,
}

/// The bytes of one stream, as far as they have come.
#[derive(Debug)]
pub struct Pieces {
    token: Token,
    buffer: Vec<u8>,
    /// How much of the buffer was returned.
    taken: usize,
    /// The message whose pieces come.
    message: Vec<u8>,
    is_too_long: bool,
    has_ended: bool,
}

impl Pieces {
    /// A stream on which messages begin with `token`.
    pub fn new(token: Token) -> Pieces {
        let (buffer, message) = (Vec::new(), Vec::new());
        Pieces { token, buffer, taken: 0, message, is_too_long: false, has_ended: false }
    }

    /// Adds bytes that have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// No more bytes will come: what could have become a message is output.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// The next item; `None` until more bytes have come.
    pub fn next_item(&mut self) -> Option<Item> {
        loop {
            let rest = &self.buffer[self.taken..];
            let start = self.start_of_piece(rest);
            if start > 0 {
                let output = rest[..start].to_vec();
                self.taken += start;
                return Some(Item::Output(output));
            }
            let head = self.token.as_bytes().len() + HEAD_BYTES;
            let (kind, length) = match rest.get(head - HEAD_BYTES..head).map(head_of) {
                // The token is there, and what follows it is not a piece: the interpreter's own
                // code has sent it.
                Some(None) => {
                    self.taken += 1;
                    return Some(Item::Output(vec![rest[0]]));
                }
                Some(Some(found)) if rest.len() >= head + found.1 => found,
                // The rest of the piece has not come.
                _ if !self.has_ended || rest.is_empty() => return None,
                _ => {
                    let output = rest.to_vec();
                    self.taken = self.buffer.len();
                    return Some(Item::Output(output));
                }
            };
            let content = self.taken + head..self.taken + head + length;
            self.taken = content.end;
            if let Some(item) = self.piece(kind, content) {
                return Some(item);
            }
        }
    }

    /// Where a piece starts, or could start if more bytes come.
    fn start_of_piece(&self, bytes: &[u8]) -> usize {
        let token = self.token.as_bytes();
        let starts = |rest: &[u8]| {
            let known = rest.len().min(token.len());
            rest[..known] == token[..known]
        };
        let first = |from: usize| {
            let found = bytes[from..].iter().position(|byte| *byte == token[0]);
            found.map(|it| from + it)
        };
        let mut at = first(0);
        while let Some(start) = at {
            if starts(&bytes[start..]) {
                return start;
            }
            at = first(start + 1);
        }
        bytes.len()
    }

    fn piece(&mut self, kind: Kind, content: std::ops::Range<usize>) -> Option<Item> {
        if matches!(kind, Kind::Only | Kind::First) {
            // An interrupted message has no last piece.
            (self.message, self.is_too_long) = (Vec::new(), false);
        }
        if self.message.len() + content.len() > MAX_MESSAGE_BYTES {
            (self.message, self.is_too_long) = (Vec::new(), true);
        }
        if !self.is_too_long {
            self.message.extend_from_slice(&self.buffer[content]);
        }
        if !matches!(kind, Kind::Only | Kind::Last) {
            return None;
        }
        let message = std::mem::take(&mut self.message);
        Some(match std::mem::take(&mut self.is_too_long) {
            true => Item::TooLong,
            false => Item::Message(message),
        })
    }
}

/// Which piece of its message a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Only,
    First,
    Middle,
    Last,
}

fn head_of(head: &[u8]) -> Option<(Kind, usize)> {
    let (kind, digits) = head.split_first()?;
    let kind = match kind {
        b'o' => Kind::Only,
        b'f' => Kind::First,
        b'm' => Kind::Middle,
        b'l' => Kind::Last,
        _ => return None,
    };
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let digits = digits.iter().all(is_digit).then(|| std::str::from_utf8(digits).ok())??;
    Some((kind, usize::from_str_radix(digits, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token() -> Token {
        Token::of([7; 16])
    }

    fn piece(kind: char, content: &[u8]) -> Vec<u8> {
        let head = format!("{kind}{:04x}", content.len());
        [token().as_bytes(), head.as_bytes(), content].concat()
    }

    /// All items of a stream that comes in parts, with neighbouring output joined.
    fn items(parts: &[&[u8]]) -> Vec<Item> {
        let mut pieces = Pieces::new(token());
        let mut found: Vec<Item> = Vec::new();
        let mut take = |pieces: &mut Pieces| {
            while let Some(item) = pieces.next_item() {
                match (found.last_mut(), item) {
                    (Some(Item::Output(last)), Item::Output(more)) => last.extend(more),
                    (_, item) => found.push(item),
                }
            }
        };
        for part in parts {
            pieces.push(part);
            take(&mut pieces);
        }
        pieces.end();
        take(&mut pieces);
        found
    }

    fn output(text: &[u8]) -> Item {
        Item::Output(text.to_vec())
    }

    #[test]
    fn messages_are_separated_from_output_in_order() {
        let bytes = [
            b"one\n".as_slice(),
            &piece('o', b"{}"),
            b"two",
            &piece('f', b"ab"),
            &piece('m', b"cd"),
            b"in between",
            &piece('l', b"ef"),
            b"end",
        ]
        .concat();
        let expected = [
            output(b"one\n"),
            Item::Message(b"{}".to_vec()),
            output(b"twoin between"),
            Item::Message(b"abcdef".to_vec()),
            output(b"end"),
        ];
        let found = items(&[&bytes]);
        // Output between the pieces of a message comes before the message.
        assert_eq!(found, expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(items(&single), expected);
    }

    #[test]
    fn output_without_the_token_is_never_a_message() {
        let other = Token::of([8; 16]);
        let forged = [other.as_bytes(), b"o0002{}"].concat();
        assert_eq!(items(&[&forged]), [output(&forged)]);
        let cut = token().as_bytes()[..20].to_vec();
        assert_eq!(items(&[&cut]), [output(&cut)]);
        let malformed = [token().as_bytes(), b"x0002{}"].concat();
        assert_eq!(items(&[&malformed]), [output(&malformed)]);
        let upper = [token().as_bytes(), b"o00A0"].concat();
        assert_eq!(items(&[&upper]), [output(&upper)]);
    }

    #[test]
    fn interrupted_message_is_dropped_when_the_next_begins() {
        let bytes = [piece('f', b"ab"), piece('o', b"{}")].concat();
        assert_eq!(items(&[&bytes]), [Item::Message(b"{}".to_vec())]);
    }

    #[test]
    fn message_over_the_bound_is_dropped_and_the_next_arrives() {
        let mut pieces = Pieces::new(token());
        let content = vec![b'a'; 0xffff];
        let mut found = Vec::new();
        let count = MAX_MESSAGE_BYTES / content.len() + 2;
        for at in 0..count {
            let kind = if at == 0 {
                'f'
            } else if at + 1 == count {
                'l'
            } else {
                'm'
            };
            pieces.push(&piece(kind, &content));
            found.extend(std::iter::from_fn(|| pieces.next_item()));
            assert!(pieces.message.len() <= MAX_MESSAGE_BYTES);
        }
        pieces.push(&piece('o', b"{}"));
        found.extend(std::iter::from_fn(|| pieces.next_item()));
        assert_eq!(found, [Item::TooLong, Item::Message(b"{}".to_vec())]);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_parts_give_the_same_items(
            parts in proptest::collection::vec(prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                proptest::collection::vec(any::<u8>(), 0..40).prop_map(|it| piece('o', &it)),
                (0_usize..33).prop_map(|it| token().as_bytes()[..it].to_vec()),
            ], 0..12),
            size in 1_usize..50,
        ) {
            let bytes = parts.concat();
            let cut: Vec<&[u8]> = bytes.chunks(size).collect();
            let whole = items(&[&bytes]);
            prop_assert_eq!(&items(&cut), &whole);
            let kept: usize = whole.iter().map(|item| match item {
                Item::Output(output) => output.len(),
                Item::Message(message) => message.len(),
                Item::TooLong => 0,
            }).sum();
            prop_assert!(kept <= bytes.len());
        }
    }
}

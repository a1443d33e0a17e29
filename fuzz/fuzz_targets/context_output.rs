//! Any bytes as the output of a context, in parts of any size: items do not depend on the parts, and
//! a message is bounded and parsed or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_contexts::{Item, Message, Pieces, Token, message};

/// All items of a stream, with neighbouring output joined.
fn items(bytes: &[u8], size: usize) -> Vec<Item> {
    let mut pieces = Pieces::new(Token::of([0; 16]));
    let mut found: Vec<Item> = Vec::new();
    let mut take = |pieces: &mut Pieces| {
        while let Some(item) = pieces.next_item() {
            match (found.last_mut(), item) {
                (Some(Item::Output(last)), Item::Output(more)) => last.extend(more),
                (_, item) => found.push(item),
            }
        }
    };
    for part in bytes.chunks(size) {
        pieces.push(part);
        take(&mut pieces);
    }
    pieces.end();
    take(&mut pieces);
    found
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let whole = items(bytes, bytes.len().max(1));
    assert_eq!(items(bytes, usize::from(*size).max(1)), whole);
    for item in whole {
        let Item::Message(content) = item else { continue };
        if let Ok(Message::Result { result, .. }) = message(&content) {
            assert!(result.extra.len() <= 64);
        }
    }
    let _ = message(bytes);
});

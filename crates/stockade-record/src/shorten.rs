//! Shortens an event so that it fits on a line.

use serde_json::Value;

use crate::Body;

/// How many bytes of a text and how many items of a list to keep, tried in this order. The last
/// always fits.
const TRIES: [(usize, usize); 3] = [(1024, 64), (256, 32), (64, 8)];

/// The mark of a cut.
const REST: &str = "…";

/// The event with its long texts and lists cut and marked, so that it `fits`.
pub(crate) fn shortened(body: &Body, fits: impl Fn(&Body) -> bool) -> Body {
    let mut short = body.clone();
    for (text, items) in TRIES {
        short = cut(body, text, items).unwrap_or(short);
        if fits(&short) {
            break;
        }
    }
    short
}

/// Whether words may be the result of shortening.
pub(crate) fn may_be_cut(words: &[String]) -> bool {
    TRIES.iter().any(|(text, items)| {
        let fits = words.len() <= *items && words.iter().all(|word| word.len() <= *text);
        let is_list_cut = words.len() == *items && words.last().is_some_and(|word| word == REST);
        // The cut is between characters, which have at most four bytes.
        let is_text_cut = |word: &String| word.ends_with(REST) && word.len() + 3 >= *text;
        fits && (is_list_cut || words.iter().any(is_text_cut))
    })
}

/// Cuts a text to `most` bytes, including the mark.
pub(crate) fn cut_text(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most.saturating_sub(REST.len())));
        text.push_str(REST);
    }
}

fn cut(body: &Body, text: usize, items: usize) -> Option<Body> {
    let mut value = serde_json::to_value(body).ok()?;
    walk(&mut value, text, items);
    serde_json::from_value(value).ok()
}

fn walk(value: &mut Value, text: usize, items: usize) {
    match value {
        Value::String(long) => cut_text(long, text),
        Value::Array(long) => {
            // Only lists of words are unbounded, so the mark is a word.
            if long.len() > items {
                long.truncate(items - 1);
                long.push(Value::String(REST.to_owned()));
            }
            long.iter_mut().for_each(|item| walk(item, text, items));
        }
        Value::Object(fields) => fields.values_mut().for_each(|field| walk(field, text, items)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

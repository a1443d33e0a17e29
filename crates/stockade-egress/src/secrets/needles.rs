//! The forms in which a value can come back, and the search for them.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::Searcher;

/// Byte sequences, each with the secret that it belongs to.
pub(super) struct Needles {
    searcher: Option<Searcher>,
    forms: Vec<(usize, Zeroizing<Vec<u8>>)>,
    pub(super) longest: usize,
}

/// One occurrence.
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The secret's index.
    pub(super) owner: usize,
}

impl Needles {
    /// The secret of the first occurrence.
    pub(super) fn first_in(&self, bytes: &[u8]) -> Option<usize> {
        let found = self.searcher.as_ref()?.find(bytes)?;
        self.forms.get(found.pattern().as_usize()).map(|(owner, _)| *owner)
    }

    /// Every occurrence, without overlaps.
    pub(super) fn all_in<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Found> + 'a {
        self.searcher.iter().flat_map(move |searcher| searcher.find_iter(bytes)).filter_map(
            |found| {
                let (owner, _) = self.forms.get(found.pattern().as_usize())?;
                Some(Found { start: found.start(), end: found.end(), owner: *owner })
            },
        )
    }

    /// How many bytes at the end could be the start of an occurrence.
    pub(super) fn open_end(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        let begins = |end: &[u8]| self.forms.iter().any(|(_, form)| form.starts_with(end));
        (1..=most).rev().find(|length| begins(&bytes[bytes.len() - length..])).unwrap_or(0)
    }
}

/// Builds a search. The longest form wins where several begin.
pub(super) fn searcher(forms: Vec<(usize, Zeroizing<Vec<u8>>)>) -> Needles {
    let longest = forms.iter().map(|(_, form)| form.len()).max().unwrap_or(0);
    let patterns = forms.iter().map(|(_, form)| form.as_slice());
    // Fails only beyond the 32-bit state space, which bounded forms do not reach; then nothing is
    // sent, because the session does not start: see `Secrets::load`.
    let searcher = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(patterns)
        .expect("at most a few thousand bounded patterns");
    Needles { searcher: Some(searcher), forms, longest }
}

/// The forms of values.
pub(super) fn of_values(
    current: &[Arc<Zeroizing<String>>],
    old: &[(usize, Arc<Zeroizing<String>>)],
) -> Needles {
    let now = current.iter().enumerate();
    let before = old.iter().map(|(owner, value)| (*owner, value));
    let mut forms: Vec<(usize, Zeroizing<Vec<u8>>)> = Vec::new();
    for (owner, value) in now.chain(before) {
        for form in forms_of(value) {
            if !forms.iter().any(|(_, known)| *known == form) {
                forms.push((owner, form));
            }
        }
    }
    searcher(forms)
}

/// A value as it is, in lower case as in the name of a host or of a header of HTTP/2, with blanks as
/// in forms, in hexadecimal, and as it stands inside of base64. Escapes are read in `reading`.
fn forms_of(value: &str) -> Vec<Zeroizing<Vec<u8>>> {
    let hex = |lower: bool| {
        let digit = |byte: u8| if lower { format!("{byte:02x}") } else { format!("{byte:02X}") };
        value.bytes().map(digit).collect::<String>().into_bytes()
    };
    let mut forms = vec![
        value.as_bytes().to_vec(),
        value.to_ascii_lowercase().into_bytes(),
        value.replace(' ', "+").into_bytes(),
        hex(true),
        hex(false),
    ];
    for before in 0..3 {
        forms.push(inside_of_base64(value, before, &STANDARD_NO_PAD));
        forms.push(inside_of_base64(value, before, &URL_SAFE_NO_PAD));
    }
    forms.into_iter().map(Zeroizing::new).collect()
}

/// The characters of base64 that a value alone decides, after so many bytes of other text.
fn inside_of_base64(value: &str, before: usize, engine: &impl Engine) -> Vec<u8> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value.as_bytes());
    let text = Zeroizing::new(engine.encode(&bytes));
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    text.as_bytes()[first..last].to_vec()
}

//! Searches a stream of bytes: refuses placeholders in what programs send, and redacts values in
//! what servers send back. Redacting keeps the length, so that no framing changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::needles::{Found, Needles};
use super::reading::search;
use crate::http::Fields;

/// What replaces each byte of a value.
const REDACTED: u8 = b'*';

/// A placeholder was found; the index of its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced(pub(crate) usize);

/// The search in one stream of bytes.
pub(crate) struct Screen {
    needles: Option<Arc<Needles>>,
    redacts: Redacts,
    /// Bytes that may be the start of an occurrence.
    held: Vec<u8>,
    /// The secrets whose values were redacted.
    echoed: BTreeSet<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Redacts {
    Yes,
    No,
}

impl Screen {
    pub(crate) fn off() -> Screen {
        Screen { needles: None, redacts: Redacts::No, held: Vec::new(), echoed: BTreeSet::new() }
    }

    pub(super) fn detecting(needles: Arc<Needles>) -> Screen {
        Screen { needles: Some(needles), ..Screen::off() }
    }

    pub(super) fn redacting(needles: Arc<Needles>) -> Screen {
        Screen { needles: Some(needles), redacts: Redacts::Yes, ..Screen::off() }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.needles.is_none()
    }

    /// The secrets whose values were redacted so far.
    pub(crate) fn echoed(&self) -> impl Iterator<Item = usize> + '_ {
        self.echoed.iter().copied()
    }

    /// The next bytes of the stream that may pass: no more than were given, and a part of them is
    /// held until it is known what follows.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Misplaced> {
        let Some(needles) = self.needles.clone() else { return Ok(bytes.to_vec()) };
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        if self.redacts == Redacts::No {
            refuse(&needles, &all)?;
            let open = needles.open_end(&all);
            self.held = all.split_off(all.len() - open);
            return Ok(all);
        }
        let searched = search(&needles, &all);
        // An occurrence that is held can turn out to be a part of a longer one.
        let passing = searched.found.iter().filter(|one| one.start < searched.open_from);
        passing.for_each(|one| self.redact(&mut all, one));
        self.held = all.split_off(searched.open_from);
        Ok(all)
    }

    /// The bytes that were held, at the end of the stream.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.held);
        if let (Some(needles), Redacts::Yes) = (self.needles.clone(), self.redacts) {
            search(&needles, &rest).found.iter().for_each(|one| self.redact(&mut rest, one));
        }
        rest
    }

    /// Bytes that are whole.
    pub(crate) fn whole(&mut self, text: &mut [u8]) -> Result<(), Misplaced> {
        match (self.needles.clone(), self.redacts) {
            (Some(needles), Redacts::No) => refuse(&needles, text),
            (Some(needles), Redacts::Yes) => {
                search(&needles, text).found.iter().for_each(|one| self.redact(text, one));
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Names and values of fields.
    pub(crate) fn fields(&mut self, fields: &mut Fields) -> Result<(), Misplaced> {
        for field in &mut fields.0 {
            self.text(&mut field.name)?;
            self.whole(&mut field.value)?;
        }
        Ok(())
    }

    /// A text that is whole.
    pub(crate) fn text(&mut self, text: &mut String) -> Result<(), Misplaced> {
        let mut bytes = std::mem::take(text).into_bytes();
        self.whole(&mut bytes)?;
        *text = String::from_utf8(bytes).expect("every form is ASCII, and ASCII replaces it");
        Ok(())
    }

    fn redact(&mut self, bytes: &mut [u8], found: &Found) {
        // Line ends stay: they end the lines of a trailer.
        let within = bytes[found.start..found.end].iter_mut();
        within.filter(|byte| !matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = REDACTED);
        self.echoed.insert(found.owner);
    }
}

fn refuse(needles: &Needles, bytes: &[u8]) -> Result<(), Misplaced> {
    needles.first_in(bytes).map_or(Ok(()), |owner| Err(Misplaced(owner)))
}

//! The decoder of a tools file.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use stockade_text::{Node, Report, describe};

pub(super) struct Decoder<'r, 't> {
    pub(super) report: &'r mut Report<'t>,
    pub(super) base: &'r Path,
}

/// A decoder reads fields and reports mistakes through its `Report`.
impl<'t> Deref for Decoder<'_, 't> {
    type Target = Report<'t>;

    fn deref(&self) -> &Report<'t> {
        self.report
    }
}

impl DerefMut for Decoder<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.report
    }
}

impl Decoder<'_, '_> {
    /// Text that can be passed to a program.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = self.report.text(node, what)?;
        if text.contains('\0') {
            let message = format!("{what} must be text, not {}", describe(node));
            self.mistake(node.place, message, "leave out the character NUL");
            return None;
        }
        Some(text)
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, node: &Node, what: &str) -> Option<Vec<String>> {
        let items = self.list(node, what)?;
        items.iter().map(|item| self.text(item, &format!("an item of {what}"))).collect()
    }
}

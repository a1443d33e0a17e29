//! A change as a patch, as `git diff` prints it.

use std::time::Duration;

use similar::TextDiff;

use crate::StoreError;
use crate::change::{Change, ChangeKind};
use crate::view::{EntryKind, TreeEntry, View};

/// Larger files are compared by size and hash.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// How long the comparison of one file may take; a longer one is less exact.
const PATIENCE: Duration = Duration::from_millis(500);

/// A patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The text; empty for a directory without a change that a patch can have.
    pub text: String,
    /// How many lines were added.
    pub added: usize,
    /// How many lines were removed.
    pub removed: usize,
    /// Whether the file is not text, or too large to print.
    pub is_binary: bool,
}

/// The patch of a change. `prefix` is where the place is in the names.
pub fn patch(
    old: &View<'_>,
    new: &View<'_>,
    change: &Change,
    prefix: &str,
) -> Result<Patch, StoreError> {
    let path = [prefix.as_bytes(), &change.path].concat();
    let (a, b) = (quoted(b"a/", &path), quoted(b"b/", &path));
    let mut patch = Patch { text: format!("diff --git {a} {b}\n"), ..Patch::default() };
    let sides = [(old, change.old.as_ref()), (new, change.new.as_ref())];
    let [was, is] = sides.map(|(_, entry)| entry.and_then(mode));
    match (was, is, change.kind()) {
        // Directories have no place in a patch.
        (None, None, _) => return Ok(Patch::default()),
        (None, Some(mode), _) => patch.text.push_str(&format!("new file mode {mode:06o}\n")),
        (Some(mode), None, _) => patch.text.push_str(&format!("deleted file mode {mode:06o}\n")),
        (Some(was), Some(is), kind) if was != is => {
            if kind == ChangeKind::Replaced {
                // As git: a removal and an addition.
                let gone = Change { new: None, ..change.clone() };
                let come = Change { old: None, ..change.clone() };
                let mut all = self::patch(old, new, &gone, prefix)?;
                let rest = self::patch(old, new, &come, prefix)?;
                all.text.push_str(&rest.text);
                all.added += rest.added;
                all.removed += rest.removed;
                all.is_binary |= rest.is_binary;
                return Ok(all);
            }
            patch.text.push_str(&format!("old mode {was:06o}\nnew mode {is:06o}\n"));
        }
        _ => {}
    }
    let name = |side: &str, mode: Option<u32>| match mode {
        Some(_) => side.to_owned(),
        None => "/dev/null".to_owned(),
    };
    let (from, to) = (name(&a, was), name(&b, is));
    let [before, after] = sides.map(|(view, entry)| text(view, entry));
    let (before, after) = (before?, after?);
    match (before, after) {
        (Side::Text(before), Side::Text(after)) => {
            if before != after {
                lines(&mut patch, (&before, &after), (&from, &to));
            }
        }
        (before, after) => {
            patch.is_binary = true;
            let said = format!("Binary files {from} ({before}) and {to} ({after}) differ\n");
            patch.text.push_str(&said);
        }
    }
    Ok(patch)
}

/// One side of a comparison.
enum Side {
    Text(String),
    Binary { size: u64, hash: String },
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Side::Text(text) if text.is_empty() => f.write_str("nothing"),
            Side::Text(text) => write!(f, "{} bytes of text", text.len()),
            Side::Binary { size, hash } => write!(f, "{size} bytes, {hash}"),
        }
    }
}

fn lines(patch: &mut Patch, (before, after): (&str, &str), (from, to): (&str, &str)) {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    for change in diff.iter_all_changes() {
        match change.tag() {
            similar::ChangeTag::Insert => patch.added += 1,
            similar::ChangeTag::Delete => patch.removed += 1,
            similar::ChangeTag::Equal => {}
        }
    }
    let unified = diff.unified_diff().context_radius(3).header(from, to).to_string();
    patch.text.push_str(&unified);
}

fn text(view: &View<'_>, entry: Option<&TreeEntry>) -> Result<Side, StoreError> {
    let content = match entry.map(|entry| &entry.kind) {
        Some(EntryKind::File(content)) => content,
        Some(EntryKind::Link(target)) => {
            return Ok(Side::Text(String::from_utf8_lossy(target).into_owned()));
        }
        _ => return Ok(Side::Text(String::new())),
    };
    let whole = view.whole(content, MAX_TEXT_BYTES)?;
    let is_text = |bytes: &Vec<u8>| !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok();
    if let Some(bytes) = whole.filter(is_text) {
        return Ok(Side::Text(String::from_utf8(bytes).expect("it was checked")));
    }
    Ok(Side::Binary { size: content.size(), hash: short_hash(view, content)? })
}

/// The first digits of the hash of a file; of a sparse file without reading its holes.
fn short_hash(view: &View<'_>, content: &crate::Content) -> Result<String, StoreError> {
    const PIECE: u64 = 1 << 20;
    /// A longer file is hashed by its parts with data.
    const MOST: u64 = 1 << 30;
    let mut hasher = blake3::Hasher::new();
    match content {
        crate::Content::Stored { size, chunks } if *size > MOST => {
            hasher.update(&size.to_le_bytes());
            for chunk in chunks.0.iter() {
                hasher.update(&chunk.offset.to_le_bytes());
                hasher.update(&chunk.hash.0);
            }
        }
        content => {
            let (mut offset, size) = (0, content.size());
            while offset < size {
                let length = usize::try_from(PIECE.min(size - offset)).expect("a piece is short");
                let mut piece = vec![0; length];
                view.read(content, offset, &mut piece)?;
                hasher.update(&piece);
                offset += length as u64;
            }
        }
    }
    Ok(format!("blake3 {}", &hasher.finalize().to_hex()[..16]))
}

/// The mode in a patch: git knows files, executables and links.
fn mode(entry: &TreeEntry) -> Option<u32> {
    match entry.kind {
        EntryKind::File(_) if entry.mode & 0o111 != 0 => Some(0o100_755),
        EntryKind::File(_) => Some(0o100_644),
        EntryKind::Link(_) => Some(0o120_000),
        EntryKind::Special(_) | EntryKind::Other => Some(0o010_000),
        EntryKind::Directory { .. } => None,
    }
}

/// A name, in quotes if it has characters that a terminal or a reader of patches could misread.
fn quoted(side: &[u8], path: &[u8]) -> String {
    let whole = [side, path].concat();
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if whole.iter().all(is_plain) {
        return String::from_utf8(whole).expect("it is ASCII");
    }
    let mut text = String::from("\"");
    for byte in whole {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' '..=b'~' => text.push(char::from(byte)),
            byte => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text.push('"');
    text
}

//! `read_file`, `write_file` and `list_files`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_api::{
    FileMode, FileParams, FileResult, FileView, Frame, PathBytes, Reply, Request, read_frame,
    write_frame,
};
use tokio::net::UnixStream;

use super::answer::{Answer, Image};
use super::sandboxes::Sandboxes;
use super::server::Stop;
use super::tools::{Effect, SandboxTool, stopped};
use crate::Problem;
use crate::sessions::client;

/// How much of a file one call returns, by default and at most.
const PART_BYTES: u64 = 256 << 10;
const MOST_PART_BYTES: u64 = 1 << 20;

/// The largest picture that becomes image content; in base64 it still is an ordinary message.
const MOST_IMAGE_BYTES: u64 = 4 << 20;

/// How many entries a list has, by default and at most.
const ENTRIES: usize = 1000;
const MOST_ENTRIES: usize = 5000;

/// The size of one frame of content.
const FRAME_BYTES: usize = 256 << 10;

pub(super) struct ReadFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFileParams {
    /// The sandbox.
    sandbox_id: String,
    /// The file inside; a relative path starts in /workspace.
    path: String,
    /// The first byte; 0 by default.
    offset: Option<u64>,
    /// How many bytes at most: 262144 by default, 1048576 at most.
    length: Option<u64>,
    /// `utf-8` or `base64`. By default text is `utf-8`, a PNG, JPEG, GIF or WebP picture is image
    /// content, and everything else is `base64`.
    encoding: Option<Encoding>,
}

/// How the bytes of a file are written.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum Encoding {
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ReadView {
    /// The sandbox.
    sandbox_id: String,
    /// The file.
    path: String,
    /// The size of the whole file.
    file_bytes: u64,
    /// The first byte of this part.
    offset: u64,
    /// The size of this part.
    bytes: u64,
    /// `utf-8`, `base64`, or `image` if the content is image content.
    encoding: String,
    /// What kind of picture it is.
    mime_type: Option<String>,
    /// The bytes, encoded; absent for image content.
    content: Option<String>,
    /// The offset of the next part; absent if this is the last.
    next_offset: Option<u64>,
}

impl SandboxTool for ReadFile {
    const NAME: &'static str = "read_file";
    const TITLE: &'static str = "Read a file";
    const DESCRIPTION: &'static str = "Reads a file of a sandbox, or a part of it. Pictures come as \
        image content.";
    const EFFECT: Effect = Effect::Reads;
    type Params = ReadFileParams;
    type Result = ReadView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: ReadFileParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        sandboxes.policy(&params.sandbox_id)?;
        tokio::select! {
            read = read(params) => read,
            () = stop.wait() => Err(stopped().into()),
        }
    }
}

async fn read(params: ReadFileParams) -> anyhow::Result<Answer> {
    let ReadFileParams { sandbox_id, path, offset, length, encoding } = params;
    let file = inside(&path)?;
    let file_bytes = stat(&sandbox_id, &file).await?.bytes;
    let is_whole = offset.is_none() && length.is_none() && encoding.is_none();
    if is_whole && let Some(mime_type) = picture(&part(&sandbox_id, &file, 0, 16).await?) {
        if file_bytes > MOST_IMAGE_BYTES {
            let message = format!("the picture {path} of {file_bytes} bytes is too large to show");
            let remedy = "make it smaller inside, or read its bytes with offset and length";
            return Err(Problem::new(message, remedy).into());
        }
        let bytes = part(&sandbox_id, &file, 0, MOST_IMAGE_BYTES).await?;
        let view = ReadView {
            sandbox_id,
            path,
            file_bytes,
            offset: 0,
            bytes: bytes.len() as u64,
            encoding: "image".to_owned(),
            mime_type: Some(mime_type.to_owned()),
            content: None,
            next_offset: None,
        };
        return Ok(Answer::new(&view)?.with_image(Image { mime_type, bytes }));
    }
    let offset = offset.unwrap_or(0);
    let length = length.unwrap_or(PART_BYTES).min(MOST_PART_BYTES);
    let bytes = part(&sandbox_id, &file, offset, length).await?;
    let is_rest = offset.saturating_add(bytes.len() as u64) < file_bytes;
    let (encoding, bytes, content) = match encoding {
        Some(Encoding::Base64) => ("base64", bytes.len(), STANDARD.encode(&bytes)),
        asked => match text(&bytes, is_rest) {
            Some(text) => ("utf-8", text.len(), text.to_owned()),
            None if asked.is_some() => {
                let message = format!("{path} is not UTF-8 text from byte {offset} on");
                return Err(Problem::new(message, "read it as base64").into());
            }
            None => ("base64", bytes.len(), STANDARD.encode(&bytes)),
        },
    };
    let next = offset.saturating_add(bytes as u64);
    Answer::new(&ReadView {
        sandbox_id,
        path,
        file_bytes,
        offset,
        bytes: bytes as u64,
        encoding: encoding.to_owned(),
        mime_type: None,
        content: Some(content),
        next_offset: (bytes > 0 && next < file_bytes).then_some(next),
    })
}

/// Bytes as text, if they are. Of a part that is not the last, an unfinished last character is left
/// for the next part.
fn text(bytes: &[u8], is_rest: bool) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if is_rest && error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// The kind of a picture by its first bytes.
pub(super) fn picture(first: &[u8]) -> Option<&'static str> {
    match first {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

pub(super) struct WriteFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileParams {
    /// The sandbox.
    sandbox_id: String,
    /// The file inside; a relative path starts in /workspace. Missing directories are made.
    path: String,
    /// What it shall contain.
    content: String,
    /// How the content is written: `utf-8`, the default, or `base64`.
    encoding: Option<Encoding>,
    /// What happens to an existing file.
    #[serde(default)]
    mode: WriteMode,
    /// Whether the file becomes executable.
    #[serde(default)]
    executable: bool,
}

/// What happens to an existing file: `replace`, the default, replaces it in one step, `create`
/// fails, and `append` adds to its end.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WriteMode {
    #[default]
    Replace,
    Create,
    Append,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct WrittenView {
    /// The sandbox.
    sandbox_id: String,
    /// The file.
    path: String,
    /// How many bytes were written.
    bytes: u64,
}

impl SandboxTool for WriteFile {
    const NAME: &'static str = "write_file";
    const TITLE: &'static str = "Write a file";
    const DESCRIPTION: &'static str = "Writes a file of a sandbox.";
    const EFFECT: Effect = Effect::Changes;
    type Params = WriteFileParams;
    type Result = WrittenView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: WriteFileParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        let WriteFileParams { sandbox_id, path, content, encoding, mode, executable } = params;
        sandboxes.policy(&sandbox_id)?;
        let content = match encoding {
            None | Some(Encoding::Utf8) => content.into_bytes(),
            Some(Encoding::Base64) => STANDARD.decode(content).map_err(|error| {
                let message = format!("the content is not base64: {error}");
                Problem::new(message, "write it with padding and without line ends")
            })?,
        };
        let mode = match mode {
            WriteMode::Replace => FileMode::Replace,
            WriteMode::Create => FileMode::Create,
            WriteMode::Append => FileMode::Append,
        };
        let params = FileParams::Write { path: inside(&path)?, mode, executable };
        let bytes = tokio::select! {
            written = write(&sandbox_id, params, &content) => written?,
            () = stop.wait() => return Err(stopped().into()),
        };
        Answer::new(&WrittenView { sandbox_id, path, bytes })
    }
}

pub(super) struct ListFiles;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFilesParams {
    /// The sandbox.
    sandbox_id: String,
    /// The directory inside; /workspace by default.
    path: Option<String>,
    /// How many levels; 1, the default, is only the directory itself.
    depth: Option<u32>,
    /// How many entries at most: 1000 by default, 5000 at most.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct FilesView {
    /// The sandbox.
    sandbox_id: String,
    /// The directory.
    path: String,
    /// What it contains.
    entries: Vec<EntryView>,
    /// Whether there are more entries than these.
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct EntryView {
    /// The path below the directory. Bytes that are not UTF-8 are replaced.
    path: String,
    /// `file`, `directory`, `link` or `special`.
    kind: String,
    /// Its size.
    bytes: u64,
    /// Its permission bits, in octal.
    mode: String,
    /// When it was changed last, in seconds since 1970.
    modified: i64,
    /// The target of a link.
    target: Option<String>,
}

impl SandboxTool for ListFiles {
    const NAME: &'static str = "list_files";
    const TITLE: &'static str = "List files";
    const DESCRIPTION: &'static str = "Lists what a directory of a sandbox contains.";
    const EFFECT: Effect = Effect::Reads;
    type Params = ListFilesParams;
    type Result = FilesView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: ListFilesParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        let ListFilesParams { sandbox_id, path, depth, limit } = params;
        sandboxes.policy(&sandbox_id)?;
        let path = path.unwrap_or_else(|| stockade_policy::WORKSPACE.to_owned());
        let most = limit.unwrap_or(ENTRIES).min(MOST_ENTRIES);
        let params = FileParams::List { path: inside(&path)?, depth: depth.unwrap_or(1).max(1) };
        let (entries, truncated) = tokio::select! {
            listed = list(&sandbox_id, params, most) => listed?,
            () = stop.wait() => return Err(stopped().into()),
        };
        let entries = entries.into_iter().map(EntryView::from).collect();
        Answer::new(&FilesView { sandbox_id, path, entries, truncated })
    }
}

impl From<FileView> for EntryView {
    fn from(view: FileView) -> EntryView {
        let shown = |path: &PathBytes| String::from_utf8_lossy(path.as_bytes()).into_owned();
        EntryView {
            path: shown(&view.path),
            kind: view.kind,
            bytes: view.bytes,
            mode: format!("{:04o}", view.mode),
            modified: view.modified,
            target: view.target.as_ref().map(shown),
        }
    }
}

fn inside(path: &str) -> Result<PathBytes, Problem> {
    PathBytes::try_from(path.as_bytes().to_vec()).map_err(|error| {
        Problem::new(format!("the path cannot be used: {error}"), "choose another path")
    })
}

/// Sends an operation.
async fn open(name: &str, params: FileParams) -> anyhow::Result<UnixStream> {
    client::open(name, Request::File(params)).await
}

/// Receives what a file operation sends, into `bytes`, up to its reply.
async fn reply(
    stream: &mut UnixStream,
    name: &str,
    bytes: &mut Vec<u8>,
) -> anyhow::Result<FileResult> {
    loop {
        match read_frame(stream).await.map_err(|error| client::lost(name, &error))? {
            Frame::Output(part) => bytes.extend_from_slice(&part),
            Frame::Reply(Reply::File(result)) => return Ok(result),
            Frame::Reply(Reply::FileFailed { failure, .. } | Reply::Failed(failure)) => {
                return Err(client::failed(failure).into());
            }
            _ => return Err(client::confused(name).into()),
        }
    }
}

async fn stat(name: &str, path: &PathBytes) -> anyhow::Result<FileView> {
    let mut stream = open(name, FileParams::Stat { path: path.clone(), follow: true }).await?;
    let mut result = reply(&mut stream, name, &mut Vec::new()).await?;
    result.entries.pop().ok_or_else(|| client::confused(name).into())
}

/// A part of a file; the length bounds what is received.
async fn part(name: &str, path: &PathBytes, offset: u64, length: u64) -> anyhow::Result<Vec<u8>> {
    let params = FileParams::Read { path: path.clone(), offset, length: Some(length) };
    let mut stream = open(name, params).await?;
    let mut bytes = Vec::new();
    reply(&mut stream, name, &mut bytes).await?;
    Ok(bytes)
}

async fn write(name: &str, params: FileParams, content: &[u8]) -> anyhow::Result<u64> {
    let mut stream = open(name, params).await?;
    let parts = content.chunks(FRAME_BYTES).map(|part| Frame::Input(part.to_vec()));
    for frame in parts.chain([Frame::InputEnd]) {
        // A failed operation reads no more; its reply has the reason.
        if write_frame(&mut stream, &frame).await.is_err() {
            break;
        }
    }
    Ok(reply(&mut stream, name, &mut Vec::new()).await?.bytes)
}

/// At most a number of entries, and whether there are more.
async fn list(
    name: &str,
    params: FileParams,
    most: usize,
) -> anyhow::Result<(Vec<FileView>, bool)> {
    let mut stream = open(name, params).await?;
    let mut entries = Vec::new();
    loop {
        let part = reply(&mut stream, name, &mut Vec::new()).await?;
        entries.extend(part.entries);
        if entries.len() > most {
            entries.truncate(most);
            return Ok((entries, true));
        }
        if !part.more {
            return Ok((entries, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        let cases: [(&[u8], Option<&str>); 6] = [
            (b"\x89PNG\r\n\x1a\n....", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"<svg xmlns=", None),
            (b"", None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(picture(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn part_of_a_text_ends_with_a_whole_character() {
        assert_eq!(text("aü".as_bytes(), true), Some("aü"));
        assert_eq!(text(b"a\xc3", true), Some("a"));
        assert_eq!(text(b"a\xc3", false), None);
        assert_eq!(text(b"\xc3", true), None);
        assert_eq!(text(b"a\xff", true), None);
    }
}

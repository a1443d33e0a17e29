//! One small package each for pip and npm, and their indexes.

use std::io;

use serde_json::json;
use tokio::io::BufStream;

use super::Connection;
use super::archive::{File, tar_gz, zip};
use super::pages::{Then, respond};
use super::request::Request;

const WHEEL: &str = "stockade_tiny-1.0-py3-none-any.whl";
const TARBALL: &str = "stockade-tiny-1.0.0.tgz";

/// Whether a path belongs to an index.
pub(super) fn has(path: &str) -> bool {
    path.starts_with("/simple/")
        || path.starts_with("/wheels/")
        || path.starts_with("/stockade-tiny")
}

/// Answers as a Python package index and as an npm registry.
pub(super) async fn answer<C: Connection>(
    stream: &mut BufStream<C>,
    request: &Request,
    scheme: &str,
    token: &str,
) -> io::Result<Then> {
    let host = request.header("host").unwrap_or("nobody");
    let (kind, body) = match request.path.as_str() {
        "/simple/stockade-tiny/" => {
            let page = format!("<!DOCTYPE html><a href=\"/wheels/{WHEEL}\">{WHEEL}</a>\n");
            ("text/html", page.into_bytes())
        }
        "/stockade-tiny" => {
            let tarball = format!("{scheme}://{host}/stockade-tiny/-/{TARBALL}");
            ("application/json", description(&tarball).into_bytes())
        }
        path if path.ends_with(WHEEL) => ("application/octet-stream", wheel(token)),
        path if path.ends_with(TARBALL) => ("application/octet-stream", tarball(token)),
        _ => return respond(stream, request, "404 Not Found", &[], b"no such package\n").await,
    };
    respond(stream, request, "200 OK", &[("Content-Type", kind)], &body).await
}

/// The registry's description of the package.
fn description(tarball: &str) -> String {
    let version = json!({
        "name": "stockade-tiny", "version": "1.0.0", "main": "index.js",
        "dist": { "tarball": tarball },
    });
    let whole = json!({
        "name": "stockade-tiny", "dist-tags": { "latest": "1.0.0" },
        "versions": { "1.0.0": version },
    });
    whole.to_string()
}

/// A wheel whose module contains the token.
fn wheel(token: &str) -> Vec<u8> {
    let metadata = "Metadata-Version: 2.1\nName: stockade-tiny\nVersion: 1.0\n";
    let kind =
        "Wheel-Version: 1.0\nGenerator: stockade\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let about = "stockade_tiny-1.0.dist-info";
    let files = [
        ("stockade_tiny.py".to_owned(), format!("token = {token:?}\n")),
        (format!("{about}/METADATA"), metadata.to_owned()),
        (format!("{about}/WHEEL"), kind.to_owned()),
    ];
    let record = format!("{about}/RECORD");
    let mut lines: String = files.iter().map(|(name, _)| format!("{name},,\n")).collect();
    lines.push_str(&format!("{record},,\n"));
    let files: Vec<File> = files
        .iter()
        .map(|(name, text)| File { name, bytes: text.as_bytes() })
        .chain([File { name: &record, bytes: lines.as_bytes() }])
        .collect();
    zip(&files)
}

fn tarball(token: &str) -> Vec<u8> {
    let about = json!({ "name": "stockade-tiny", "version": "1.0.0", "main": "index.js" });
    let about = about.to_string();
    let module = format!("module.exports = {token:?};\n");
    tar_gz(&[
        File { name: "package/package.json", bytes: about.as_bytes() },
        File { name: "package/index.js", bytes: module.as_bytes() },
    ])
}

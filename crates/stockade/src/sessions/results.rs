//! What a call of a context shows: as text for people, and as files.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stockade_api::ContextResult;

use crate::Problem;

/// Files for values, numbered in their order.
pub(super) struct ResultFiles {
    directory: PathBuf,
    count: usize,
}

impl ResultFiles {
    /// Files in a directory, which is made if it is missing.
    pub(super) fn new(directory: &Path) -> Result<ResultFiles, Problem> {
        std::fs::create_dir_all(directory).map_err(|error| {
            let message = format!("cannot make the directory {}: {error}", directory.display());
            Problem::new(message, "choose another one with --results")
        })?;
        Ok(ResultFiles { directory: directory.to_owned(), count: 0 })
    }

    /// Writes every form of a value to a file of its own. Never replaces or follows a link.
    pub(super) fn write(&mut self, result: &ContextResult) -> Result<(), Problem> {
        self.count += 1;
        for (ending, bytes) in forms(result) {
            let path = self.directory.join(format!("{}.{ending}", self.count));
            let cannot = |error: std::io::Error| {
                let message = format!("cannot write {}: {error}", path.display());
                Problem::new(message, "choose an empty directory with --results")
            };
            // The directory can have files of an earlier call.
            let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
            if is_file {
                std::fs::remove_file(&path).map_err(cannot)?;
            }
            let mut options = OpenOptions::new();
            let opened = options.write(true).create_new(true).mode(0o644).open(&path);
            opened.and_then(|mut file| file.write_all(&bytes)).map_err(cannot)?;
        }
        Ok(())
    }
}

/// The forms of a value with the endings of their files. The text of a picture is not a file.
fn forms(result: &ContextResult) -> Vec<(&'static str, Vec<u8>)> {
    let texts = [
        ("html", &result.html),
        ("md", &result.markdown),
        ("svg", &result.svg),
        ("tex", &result.latex),
        ("js", &result.javascript),
    ];
    let pictures = [("png", &result.png), ("jpeg", &result.jpeg), ("pdf", &result.pdf)];
    let values =
        [("json", &result.json), ("data.json", &result.data), ("chart.json", &result.chart)];
    let texts = texts
        .into_iter()
        .filter_map(|(ending, text)| text.as_ref().map(|text| (ending, text.clone().into_bytes())));
    let pictures = pictures.into_iter().filter_map(|(ending, text)| {
        // The engine has checked that it is base64.
        Some((ending, STANDARD.decode(text.as_ref()?).ok()?))
    });
    let values = values.into_iter().filter_map(|(ending, value)| {
        value.as_ref().map(|value| (ending, value.to_string().into_bytes()))
    });
    let extra = (!result.extra.is_empty())
        .then(|| ("extra.json", json!(result.extra).to_string().into_bytes()));
    let mut forms: Vec<_> = texts.chain(pictures).chain(values).chain(extra).collect();
    if let (true, Some(text)) = (forms.is_empty(), &result.text) {
        forms.push(("txt", text.clone().into_bytes()));
    }
    forms
}

/// A value as a line of text.
pub(super) fn text(result: &ContextResult) -> String {
    let text = result.text.as_ref().or(result.markdown.as_ref()).or(result.html.as_ref());
    match text {
        Some(text) => format!("{text}\n"),
        None => {
            let endings: Vec<_> = forms(result).into_iter().map(|(ending, _)| ending).collect();
            format!("<{}>\n", endings.join(", "))
        }
    }
}

/// The exception of a call as text; empty without one.
pub(super) fn error(report: &Value) -> String {
    let part = |name: &str| report["error"][name].as_str().unwrap_or_default();
    match (part("traceback"), part("name")) {
        ("", "") => String::new(),
        ("", name) => format!("{name}: {}\n", part("value")),
        (traceback, _) => traceback.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_value_becomes_a_file_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let outside = directory.path().join("outside");
        let results = directory.path().join("results");
        let mut files = ResultFiles::new(&results).unwrap();
        let result = ContextResult {
            text: Some("a".to_owned()),
            html: Some("<b>".to_owned()),
            png: Some("aGk=".to_owned()),
            data: Some(json!({ "a": [1] })),
            ..ContextResult::default()
        };
        files.write(&result).unwrap();
        let read = |name: &str| std::fs::read_to_string(results.join(name)).unwrap();
        assert_eq!(
            [read("1.html"), read("1.png"), read("1.data.json")],
            ["<b>", "hi", "{\"a\":[1]}"]
        );
        std::os::unix::fs::symlink(&outside, results.join("2.txt")).unwrap();
        let text = ContextResult { text: Some("a".to_owned()), ..ContextResult::default() };
        assert!(files.write(&text).is_err());
        assert!(!outside.exists());
        ResultFiles::new(&results).unwrap().write(&result).unwrap();
    }

    #[test]
    fn exceptions_are_shown_with_their_traceback_or_their_value() {
        let of = |error: Value| error["error"].is_object().then(|| super::error(&error));
        assert_eq!(
            of(json!({ "error": { "name": "E", "value": "v", "traceback": "t\n" } })).unwrap(),
            "t\n"
        );
        assert_eq!(
            of(json!({ "error": { "name": "E", "value": "v", "traceback": "" } })).unwrap(),
            "E: v\n"
        );
        assert_eq!(super::error(&json!({ "outcome": "exited" })), "");
    }
}

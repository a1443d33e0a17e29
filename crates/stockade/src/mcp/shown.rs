//! What a call of a context shows, bounded as every result is.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stockade_api::{ContextResult, FrameError, ResultPart, ResultParts};

use super::answer::Image;
use super::files::picture;

/// How many values a result has at most.
const MOST_VALUES: usize = 32;

/// How many bytes all texts of a result have at most.
const MOST_TEXT_BYTES: usize = 1 << 20;

/// How many bytes one picture has at most, and all of a result.
const MOST_IMAGE_BYTES: usize = 4 << 20;
const MOST_IMAGES_BYTES: usize = 8 << 20;

/// One value that a call shows. Code inside chooses all of it.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct ValueEntry {
    /// Whether it is the value of the last expression.
    is_main_result: bool,
    /// As plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// As HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    /// As Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<String>,
    /// As SVG.
    #[serde(skip_serializing_if = "Option::is_none")]
    svg: Option<String>,
    /// As LaTeX.
    #[serde(skip_serializing_if = "Option::is_none")]
    latex: Option<String>,
    /// As JavaScript.
    #[serde(skip_serializing_if = "Option::is_none")]
    javascript: Option<String>,
    /// As PDF, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pdf: Option<String>,
    /// As JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<Value>,
    /// A table: its columns by name, each a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// The values of a chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    chart: Option<Value>,
    /// Other MIME types by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Value>,
    /// The MIME types of its pictures, which are image content, in the order of all values.
    images: Vec<String>,
    /// The forms that are left out because the result would be too large.
    left_out: Vec<String>,
}

/// Collects the values of a call.
#[derive(Default)]
pub(super) struct Shown {
    parts: ResultParts,
    pub(super) values: Vec<ValueEntry>,
    pub(super) images: Vec<Image>,
    /// How many values are left out.
    pub(super) left_out: u64,
    text_bytes: usize,
    image_bytes: usize,
}

impl Shown {
    /// Adds a part of a value.
    pub(super) fn push(&mut self, part: ResultPart) -> Result<(), FrameError> {
        if let Some(result) = self.parts.push(part)? {
            self.add(result);
        }
        Ok(())
    }

    fn add(&mut self, result: ContextResult) {
        if self.values.len() == MOST_VALUES {
            self.left_out += 1;
            return;
        }
        let mut entry =
            ValueEntry { is_main_result: result.is_main_result, ..ValueEntry::default() };
        for (mime_type, encoded) in [("image/png", &result.png), ("image/jpeg", &result.jpeg)] {
            let Some(encoded) = encoded else { continue };
            match self.image(mime_type, encoded) {
                Some(image) => {
                    self.images.push(image);
                    entry.images.push(mime_type.to_owned());
                }
                None => entry.left_out.push(mime_type.to_owned()),
            }
        }
        let left_out = &mut entry.left_out;
        let mut fitting = |name: &str, bytes: usize| {
            let fits = bytes <= MOST_TEXT_BYTES - self.text_bytes;
            match fits {
                true => self.text_bytes += bytes,
                false => left_out.push(name.to_owned()),
            }
            fits
        };
        // The plain text first: it is the shortest form and describes the value.
        for (name, text, field) in [
            ("text", result.text, &mut entry.text),
            ("markdown", result.markdown, &mut entry.markdown),
            ("html", result.html, &mut entry.html),
            ("latex", result.latex, &mut entry.latex),
            ("svg", result.svg, &mut entry.svg),
            ("javascript", result.javascript, &mut entry.javascript),
            ("pdf", result.pdf, &mut entry.pdf),
        ] {
            *field = text.filter(|text| fitting(name, text.len()));
        }
        for (name, value, field) in [
            ("json", result.json, &mut entry.json),
            ("data", result.data, &mut entry.data),
            ("chart", result.chart, &mut entry.chart),
        ] {
            *field = value.filter(|value| fitting(name, value.to_string().len()));
        }
        for (name, value) in result.extra {
            if fitting(&name, name.len() + value.to_string().len()) {
                entry.extra.insert(name, value);
            }
        }
        self.values.push(entry);
    }

    /// A picture that is one and not too large.
    fn image(&mut self, mime_type: &'static str, encoded: &str) -> Option<Image> {
        if encoded.len() > MOST_IMAGE_BYTES.div_ceil(3) * 4 {
            return None;
        }
        let bytes = STANDARD.decode(encoded).ok()?;
        let room = MOST_IMAGE_BYTES.min(MOST_IMAGES_BYTES - self.image_bytes);
        if picture(&bytes) != Some(mime_type) || bytes.len() > room {
            return None;
        }
        self.image_bytes += bytes.len();
        Some(Image { mime_type, bytes })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";

    fn shown(results: Vec<ContextResult>) -> Shown {
        let mut shown = Shown::default();
        results.into_iter().for_each(|result| shown.add(result));
        shown
    }

    #[test]
    fn pictures_become_images_and_every_other_form_is_structured() {
        let result = ContextResult {
            text: Some("a figure".to_owned()),
            png: Some(STANDARD.encode(PNG)),
            data: Some(json!({ "a": [1] })),
            is_main_result: true,
            ..ContextResult::default()
        };
        let shown = shown(vec![result]);
        assert_eq!((shown.images[0].mime_type, &shown.images[0].bytes[..]), ("image/png", PNG));
        let expected = json!([{
            "is_main_result": true, "text": "a figure", "data": { "a": [1] },
            "images": ["image/png"], "left_out": [],
        }]);
        assert_eq!(serde_json::to_value(&shown.values).unwrap(), expected);
    }

    #[test]
    fn what_is_no_picture_is_no_image() {
        let png = Some(STANDARD.encode("<html>"));
        let shown = shown(vec![ContextResult { png, ..ContextResult::default() }]);
        assert!(shown.images.is_empty());
        assert_eq!(shown.values[0].left_out, ["image/png"]);
    }

    #[test]
    fn values_texts_and_pictures_are_bounded() {
        let text = |bytes: usize| ContextResult {
            text: Some("x".repeat(bytes)),
            ..ContextResult::default()
        };
        let many = shown((0..100).map(|_| text(1)).collect());
        assert_eq!((many.values.len(), many.left_out), (MOST_VALUES, 100 - MOST_VALUES as u64));
        let large = shown(vec![text(MOST_TEXT_BYTES - 1), text(2), text(1)]);
        let kept: Vec<_> = large.values.iter().map(|value| value.text.is_some()).collect();
        assert_eq!(kept, [true, false, true]);
        let picture = |bytes: usize| {
            let png = [PNG, &vec![0; bytes - PNG.len()]].concat();
            ContextResult { png: Some(STANDARD.encode(png)), ..ContextResult::default() }
        };
        let sizes = [MOST_IMAGE_BYTES + 4, MOST_IMAGE_BYTES, MOST_IMAGE_BYTES, 100];
        let pictures = shown(sizes.map(picture).into());
        assert_eq!(pictures.images.len(), 2);
    }
}

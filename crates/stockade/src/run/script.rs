//! The code of a script, read once, so that the checked code is the code that runs.

use std::ffi::OsString;
use std::path::Path;

use stockade_provider::{Language, Program};

use crate::{Problem, load};

use super::words;

const LANGUAGES: [Language; 3] = [Language::Python, Language::Bash, Language::JavaScript];

/// Reads a script, or standard input for `-`. `options` are the arguments before it; `of_input` is
/// the language of standard input whose first line names none.
pub(crate) fn program(
    script: &str,
    language: Option<&str>,
    of_input: Option<Language>,
    arguments: &[String],
    options: &[OsString],
) -> anyhow::Result<Program> {
    let said = language.map(said_language).transpose()?;
    let path = Path::new(script);
    words::refuse_program(script, arguments, options)?;
    let code = load::script(path)?;
    let is_input = load::is_standard_input(path);
    let is_file = !is_input && !load::is_descriptor(path);
    let by_name = if is_file { Language::of_script(path) } else { None };
    let otherwise = of_input.filter(|_| is_input);
    let found = said.or(by_name).or_else(|| by_first_line(&code)).or(otherwise);
    let language = found.ok_or_else(|| {
        let what = if is_input {
            "nothing says the language of standard input".to_owned()
        } else {
            format!("neither the ending nor the first line of {script} says its language")
        };
        let remedy =
            format!("pass --language with one of {}; to run a program, write it after --", known());
        Problem::new(what, remedy)
    })?;
    let name = match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if is_file => name.to_owned(),
        _ if is_input => format!("stdin.{}", ending(language)),
        _ => format!("code.{}", ending(language)),
    };
    Ok(Program::Code { language, name, code, arguments: arguments.to_vec() })
}

fn said_language(word: &str) -> Result<Language, Problem> {
    word.parse().map_err(|_| {
        let message = format!("no language is called `{word}`");
        Problem::new(message, format!("pass --language with one of {}", known()))
    })
}

fn known() -> String {
    LANGUAGES.map(|language| language.to_string()).join(", ")
}

fn ending(language: Language) -> &'static str {
    match language {
        Language::Python => "py",
        Language::Bash => "sh",
        Language::JavaScript => "js",
    }
}

/// The language of the interpreter that a `#!` line names.
fn by_first_line(code: &[u8]) -> Option<Language> {
    let first = code.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(first.get(..first.len().min(256))?).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut interpreter = base(words.next()?);
    if interpreter == "env" {
        interpreter = base(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
    }
    if interpreter == "sh" {
        return Some(Language::Bash);
    }
    LANGUAGES.into_iter().find(|language| language.owns(&interpreter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_names_the_interpreter() {
        for (line, language) in [
            ("#!/usr/bin/python3\n", Some(Language::Python)),
            ("#!/usr/bin/env python3.12\nx", Some(Language::Python)),
            ("#! /usr/bin/env -S FOO=1 node --x\r\n", Some(Language::JavaScript)),
            ("#!/bin/sh", Some(Language::Bash)),
            ("#!/bin/bash -e\n", Some(Language::Bash)),
            ("#!/usr/bin/perl\n", None),
            ("#!/usr/bin/env\n", None),
            ("#!\n", None),
            ("print(1)\n#!/usr/bin/python3\n", None),
            ("", None),
        ] {
            assert_eq!(by_first_line(line.as_bytes()), language, "{line:?}");
        }
        assert_eq!(by_first_line(b"#!\xff\n"), None);
    }
}

//! Errors that Stockade shows to a user.

use stockade_policy::{Diagnostic, PolicyErrors};

/// A failure with its remedy.
#[derive(Debug)]
pub(crate) struct Problem {
    /// The operation, its object, and why it failed.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) remedy: String,
    /// Mistakes in a text, if they are the reason.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Problem {
    /// Where the keys of a policy are listed.
    pub(crate) const POLICY_KEYS: &str = "`stockade policy schema` lists every key";

    pub(crate) fn new(message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem { message: message.into(), remedy: remedy.into(), diagnostics: Vec::new() }
    }

    /// The error for an invalid policy or tools file. `keys` names where its keys are listed.
    pub(crate) fn refused(errors: &PolicyErrors, keys: &str) -> Problem {
        let diagnostics = errors.diagnostics().to_vec();
        let count = diagnostics.len();
        let file = diagnostics.first().map_or("the policy", |first| first.file.as_str());
        let mistakes = match count {
            1 => "1 mistake".to_owned(),
            count if errors.has_more() => format!("{count} mistakes or more"),
            count => format!("{count} mistakes"),
        };
        Problem {
            message: format!("{file} has {mistakes}"),
            remedy: format!("correct each as its own line says; {keys}"),
            diagnostics,
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

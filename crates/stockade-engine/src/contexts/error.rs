//! Why a context cannot be used.

use stockade_contexts::ContextName;
use stockade_provider::ProviderName;

use crate::RunError;

/// A context cannot be started or used.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// Contexts have only one language.
    #[error("a context cannot run {language}: contexts run python")]
    Language {
        /// The requested language.
        language: String,
    },
    /// No interpreter of the wall can wait for the next call.
    #[error(
        "the {wall} wall has no contexts: each execution gets a new interpreter, which ends with it"
    )]
    NoProcesses {
        /// The wall.
        wall: ProviderName,
    },
    /// The code is not text.
    #[error("the code for context {name} is not UTF-8 text")]
    NotText {
        /// The context.
        name: ContextName,
    },
    /// No context has this name.
    #[error("the session has no context {name}")]
    Unknown {
        /// The name.
        name: ContextName,
    },
    /// A context has this name already.
    #[error("the session has a context {name} already")]
    Exists {
        /// The name.
        name: ContextName,
    },
    /// The session has as many contexts as it can have.
    #[error("the session has {most} contexts, and cannot have more")]
    TooMany {
        /// The maximum.
        most: usize,
    },
    /// The interpreter has ended.
    #[error("context {name} has ended: {why}")]
    Ended {
        /// The context.
        name: ContextName,
        /// Why.
        why: String,
    },
    /// The interpreter could not be started.
    #[error("cannot start context {name}: {why}")]
    NotStarted {
        /// The context.
        name: ContextName,
        /// Why.
        why: String,
    },
    /// All programs are paused.
    #[error("the session is paused")]
    Paused,
    /// Stockade itself could not run the call.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ContextError {
    /// What to do next; `None` if the inner error has its own remedy.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            ContextError::Language { .. } => "run this code without a context",
            ContextError::NoProcesses { .. } => {
                "create the session with --provider native or docker, or keep values in files"
            }
            ContextError::NotText { .. } => "save it as UTF-8",
            ContextError::Unknown { .. } => "list the contexts with `stockade context ls SESSION`",
            ContextError::Exists { .. } => "choose another name, or use that one",
            ContextError::TooMany { .. } => {
                "remove one with `stockade context rm SESSION NAME`, or create another session"
            }
            ContextError::Ended { .. } => {
                "restart it, without its variables, with `stockade context restart SESSION NAME`"
            }
            ContextError::NotStarted { .. } => {
                "check that Python 3.9 or later runs inside: `stockade exec SESSION -- python3 -V`, \
                 and that the session has memory for one more interpreter"
            }
            ContextError::Paused => "resume it with `stockade resume SESSION`",
            ContextError::Run(_) => return None,
        })
    }
}

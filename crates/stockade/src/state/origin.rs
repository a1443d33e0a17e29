//! What a checkpoint keeps of the way its session was created, and a session made from that.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_backends::Surroundings;
use stockade_engine::{Session, SessionRequest};
use stockade_provider::Root;
use stockade_store::{Checkpoint, Reference, Store};

use super::place::{self, problem};
use crate::args::{Origin, SandboxArgs};
use crate::run::tools::Offered;
use crate::run::trouble;
use crate::{Problem, load};

/// The form in a checkpoint. Values of credentials are not in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    here: PathBuf,
    environment: Vec<(String, String)>,
    credentials: Vec<String>,
    root: Option<PathBuf>,
    image: Option<String>,
    user: Option<String>,
    python: Option<PathBuf>,
    tools: Vec<Tools>,
    protected: Vec<PathBuf>,
    surroundings: Vec<(String, OsString)>,
    record: Option<PathBuf>,
    no_record: bool,
    runtime: Option<String>,
    docker_url: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tools {
    name: String,
    directory: PathBuf,
    text: String,
}

/// A checkpoint that a session starts from.
pub(crate) struct Source {
    pub(crate) checkpoint: Checkpoint,
    store: Store,
}

impl Source {
    /// The sessions that a fork of it comes from, the nearest first.
    pub(crate) fn ancestors(&self) -> Vec<String> {
        let first = self.checkpoint.session.clone();
        std::iter::once(first).chain(self.checkpoint.ancestors.iter().cloned()).collect()
    }

    /// Writes its files into a new session.
    pub(crate) async fn fill(&self, session: &Session) -> Result<(), Problem> {
        let filled = session.fill(&self.store, &self.checkpoint).await;
        filled.map_err(|error| trouble::problem(&error))
    }
}

/// Finds the checkpoint of `--from-checkpoint`.
pub(crate) fn load(text: &str) -> Result<Source, Problem> {
    let store = place::open()?;
    let reference: Reference = text.parse().map_err(|error| problem(&error))?;
    let checkpoint = store.checkpoint(&reference).map_err(|error| problem(&error))?;
    Ok(Source { checkpoint, store })
}

/// What a checkpoint of this session will keep.
pub(crate) fn of(
    args: &SandboxArgs,
    session: &SessionRequest,
    offered: &Offered,
) -> anyhow::Result<Value> {
    let is_open = |(name, _): &&(String, String)| !session.credentials.contains(name);
    let tools = offered.texts().iter().map(|(name, directory, text)| Tools {
        name: name.clone(),
        directory: directory.clone(),
        text: String::from_utf8_lossy(text).into_owned(),
    });
    let here = load::here()?;
    let absolute = |path: &Option<PathBuf>| path.as_ref().map(|path| here.join(path));
    Ok(serde_json::to_value(Kept {
        environment: session.environment.iter().filter(is_open).cloned().collect(),
        credentials: session.credentials.clone(),
        root: match &session.root {
            Root::Directory(directory) => Some(directory.clone()),
            Root::Standard | Root::Image(_) => None,
        },
        // Pinned: a name may mean another image later.
        image: match &session.root {
            Root::Image(image) => Some(image.reference.clone()),
            Root::Standard | Root::Directory(_) => None,
        },
        user: args.user.clone(),
        python: absolute(&args.python),
        tools: tools.collect(),
        protected: session.protected.clone(),
        surroundings: match &args.origin {
            Some(origin) => origin.surroundings.clone(),
            None => surroundings(),
        },
        record: absolute(&args.record),
        no_record: args.no_record,
        runtime: args.runtime.clone(),
        docker_url: args.docker_url.clone(),
        here,
    })?)
}

/// Makes the arguments those of the session that was kept.
pub(crate) fn apply(checkpoint: &Checkpoint, args: &mut SandboxArgs) -> anyhow::Result<()> {
    let kept: Kept = serde_json::from_value(checkpoint.origin.clone()).map_err(|error| {
        let message = format!("cannot create a session from the checkpoint: {error}");
        let remedy = "use the program that made it: the command line forks what it created";
        Problem::new(message, remedy)
    })?;
    rustix::process::chdir(&kept.here).map_err(|errno| {
        let message = format!("cannot use the directory {}: {errno}", kept.here.display());
        Problem::new(message, "a fork starts where its first session was created; make it again")
    })?;
    let missing = kept.credentials.iter().find(|name| std::env::var_os(name.as_str()).is_none());
    if let Some(name) = missing {
        let message = format!("the variable {name} is not set, and no checkpoint has credentials");
        return Err(Problem::new(message, format!("set {name} for this command")).into());
    }
    let variable = |(name, value): (String, String)| format!("{name}={value}");
    args.env = kept.environment.into_iter().map(variable).collect();
    args.env_secret = kept.credentials;
    (args.root, args.image, args.user) = (kept.root, kept.image, kept.user);
    args.python = kept.python;
    (args.record, args.no_record) = (kept.record, kept.no_record);
    (args.runtime, args.docker_url) = (kept.runtime, kept.docker_url);
    args.provider = Some(checkpoint.provider.clone());
    args.origin = Some(Origin {
        policy: checkpoint.policy.clone(),
        tools: kept
            .tools
            .into_iter()
            .map(|tools| (tools.name, tools.directory, tools.text.into_bytes()))
            .collect(),
        protected: kept.protected,
        surroundings: kept.surroundings,
    });
    Ok(())
}

/// The variables that decide which interpreters are meant.
fn surroundings() -> Vec<(String, OsString)> {
    let seen = RefCell::new(Vec::new());
    let look = |name: &str| {
        let value = std::env::var_os(name)?;
        seen.borrow_mut().push((name.to_owned(), value.clone()));
        Some(value)
    };
    let _ = Surroundings::from_variables(look, PathBuf::new(), 0);
    seen.into_inner()
}

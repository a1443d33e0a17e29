//! Converts arguments to a request.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stockade_backends::{ContainerChoice, Surroundings};
use stockade_engine::{Passage, RunRequest, SessionRequest, Tools, TrustedPaths, entry};
use stockade_policy::{Context, Policy, WORKSPACE};
use stockade_provider::{EntryProgram, Program, Root};
use stockade_record::Body;

use crate::args::{RunArgs, SandboxArgs, Target};
use crate::render::Output;
use crate::render::lines::Denials;
use crate::{Problem, clock, load};

use super::changeable::Writable;
use super::hints::{Advice, Asked};
use super::image::{self, Image, Messages};
use super::narrowing::Narrowing;
use super::tools::Offered;
use super::variables::{Said, Variables};
use super::{certificates, flags, record, script, variables};

/// What a run starts, and in which image.
#[derive(Clone, Copy)]
pub(crate) struct RunTarget<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) image: Option<&'a Image>,
    /// Where the image's own program starts.
    pub(crate) working_directory: Option<&'a str>,
}

/// The request to the engine, the offered tools, and the facts for hints; `options` are the
/// arguments before the target, and `denials` prints denials while the program runs. Every error in
/// the arguments is found here.
pub(crate) fn request(
    args: &RunArgs,
    started: RunTarget<'_>,
    options: &[OsString],
    output: Output,
    denials: Option<&Denials>,
) -> anyhow::Result<(RunRequest, Offered, Asked)> {
    if args.learn.is_some() && provider(&args.sandbox).as_deref() == Some(MANAGED) {
        let message = "--learn needs the gate on this host, and the managed wall has its own";
        return Err(Problem::new(message, "learn with another wall").into());
    }
    let target = started.target;
    let program = program(args, target, options)?;
    let passage = match args.learn {
        Some(_) if args.sandbox.flags.inspect => Passage::LearningRequests,
        Some(_) => Passage::Learning,
        None => Passage::Allowed,
    };
    let messages = if args.quiet { Messages::Hidden } else { Messages::Shown };
    let choice = ImageChoice { found: started.image, entry: &entry(&program), messages };
    let extras = Extras {
        observer: denials.map(|denials| Box::new(denials.observer()) as Observer),
        ..Extras::default()
    };
    let (session, offered) = session(&args.sandbox, choice, passage, extras)?;
    let working_directory = args.workdir.as_deref().map(inside);
    let working_directory =
        working_directory.or_else(|| started.working_directory.map(str::to_owned));
    let request = RunRequest { session, program, working_directory };
    let advice = match args.sandbox.policy.is_empty() {
        true => Advice::Flags,
        false => Advice::Clauses,
    };
    let script = match target {
        Target::Script(script, _) if !load::is_standard_input(Path::new(script)) => {
            Some(PathBuf::from(script))
        }
        Target::Script(..) | Target::Command(_) => None,
    };
    // The program's output decides which paths are checked, and JSON may reach its author.
    let host_file = (output == Output::Text).then_some(Path::exists as fn(&Path) -> bool);
    let asked = Asked::of(&request, advice, load::here()?, script, host_file);
    Ok((request, offered, asked))
}

/// A directory inside; a relative path starts at the workspace.
fn inside(directory: &str) -> String {
    match directory.starts_with('/') {
        true => directory.to_owned(),
        false => format!("{WORKSPACE}/{directory}"),
    }
}

/// The image of a sandbox.
#[derive(Clone, Copy)]
pub(crate) struct ImageChoice<'a> {
    /// The one that `--image` names.
    pub(crate) found: Option<&'a Image>,
    /// What will run first, which decides the default.
    pub(crate) entry: &'a EntryProgram,
    pub(crate) messages: Messages,
}

/// Receives the events of the record.
pub(crate) type Observer = Box<dyn Fn(&Body) + Send + Sync>;

/// What describes a sandbox besides its arguments.
#[derive(Default)]
pub(crate) struct Extras {
    /// The request of a caller who may only narrow what the arguments allow.
    pub(crate) narrowing: Narrowing,
    /// Receives the events of the record, if one is kept.
    pub(crate) observer: Option<Observer>,
}

/// What the arguments allow at most.
pub(crate) fn policy(
    args: &SandboxArgs,
    passage: Passage,
    narrowing: &Narrowing,
    offered: &Offered,
    here: &Path,
) -> anyhow::Result<Policy> {
    let policy = match (args.policy.is_empty(), &narrowing.files) {
        (true, _) => return Ok(flags::preset(&args.flags, passage, offered, here)?),
        (false, Some(files)) => load::combined_texts(files.iter().map(|file| file.text()))?,
        (false, None) => load::combined(&args.policy)?,
    };
    Ok(flags::tightened(policy, &args.flags, here)?)
}

/// The sandbox that the arguments describe, and the tools that it offers, which are not started
/// yet.
pub(crate) fn session(
    args: &SandboxArgs,
    image: ImageChoice<'_>,
    passage: Passage,
    extras: Extras,
) -> anyhow::Result<(SessionRequest, Offered)> {
    let here = load::here()?;
    let offered = match &args.origin {
        Some(origin) => Offered::kept(&origin.tools)?,
        None => Offered::read(&args.tools, &here)?,
    };
    let Extras { narrowing, observer } = extras;
    let most = match &args.origin {
        Some(origin) => kept_policy(&origin.policy, &here)?,
        None => policy(args, passage, &narrowing, &offered, &here)?,
    };
    let mut policy = narrowing.narrowed(most, &here)?;
    let said = Said { variables: &args.env, files: &args.env_file, secrets: &args.env_secret };
    let Variables { mut environment, credentials } =
        variables::variables(&said, |name| std::env::var_os(name))?;
    refuse_taken(&policy, &environment, &credentials)?;
    let user = rustix::process::getuid().as_raw();
    // A policy file decides alone what is visible.
    let is_elsewhere = provider(args).as_deref() == Some(MANAGED);
    let is_open = args.policy.is_empty() && args.origin.is_none() && policy.may_reach_anything();
    // The session's own file has the certificates of this machine too.
    let is_open = is_open && !policy.may_read_requests();
    if is_open && !is_elsewhere {
        certificates::show(&mut policy, &mut environment, |name| std::env::var_os(name), user);
    }
    let standard = image::standard(args, &policy, image.entry, image.messages)?;
    let found = image.found.map(|found| found.with_user_for(&policy, image.messages));
    let image = found.as_ref().or(standard.as_ref());
    if let Some(image) = image {
        let has_tools = offered.names().next().is_some();
        environment = image.environment(&policy, environment, has_tools);
    }
    let root = match (&args.root, image) {
        (Some(directory), _) => root(directory, &here)?,
        (None, Some(image)) => image.root(),
        (None, None) => Root::Standard,
    };
    let writable = Writable::of(&policy, &root)?;
    let decisive = match &args.origin {
        Some(origin) => origin.protected.clone(),
        None => decisive(args.policy.iter().chain(&args.tools), &policy, &here),
    };
    let decisive_paths = TrustedPaths::of_files(decisive.iter().map(PathBuf::as_path));
    writable.refuse(&decisive_paths, "what the next run may do")?;
    offered.check(&writable)?;
    let recorder = record::recorder(args, &here, &mut policy, &root)?;
    let recorder = match observer {
        Some(observer) => recorder.map(|recorder| recorder.with_observer(observer)),
        None => recorder,
    };
    let mut context = Context::default();
    context.now = Some(clock::now()?);
    let session = SessionRequest {
        policy: Arc::new(policy),
        provider: provider(args),
        root,
        user,
        protected: decisive,
        environment,
        credentials,
        context,
        recorder: recorder.map(Arc::new),
        passage,
        // Started later, when everything else is known to be valid.
        tools: Tools::new(),
    };
    Ok((session, offered))
}

/// Refuses a variable that `--secret` sets too; the engine refuses those of a policy text.
fn refuse_taken(
    policy: &Policy,
    environment: &[(String, String)],
    credentials: &[String],
) -> Result<(), Problem> {
    let of_flags = policy
        .secrets
        .iter()
        .filter(|secret| secret.basis.origin().is_some_and(|origin| origin.line == 0));
    for name in of_flags.map(|secret| &secret.name) {
        if environment.iter().any(|(own, _)| own == name) {
            let flag = if credentials.contains(name) { "--env-secret" } else { "--env" };
            let message = format!("{flag} {name}: --secret {name} sets that variable already");
            let remedy = "leave one of the two out; with --secret, no program inside has the value";
            return Err(Problem::new(message, remedy));
        }
    }
    Ok(())
}

/// The policy of a checkpoint.
fn kept_policy(text: &str, here: &Path) -> Result<Policy, Problem> {
    Policy::parse_str("the policy of the checkpoint", text, here)
        .map_err(|errors| Problem::refused(&errors, Problem::POLICY_KEYS))
}

fn program(args: &RunArgs, target: Target<'_>, options: &[OsString]) -> anyhow::Result<Program> {
    match target {
        Target::Script(script, arguments) => {
            script::program(script, args.language.as_deref(), None, arguments, options)
        }
        Target::Command(_) if args.language.is_some() => {
            let remedy = "leave it out, or name a script";
            Err(Problem::new("--language belongs to a script", remedy).into())
        }
        Target::Command(argv) => Ok(Program::Command { argv: argv.to_vec() }),
    }
}

/// What determines the interpreter behind `python3` and other names.
pub(crate) fn surroundings(args: &SandboxArgs) -> anyhow::Result<Surroundings> {
    let (here, user) = (load::here()?, rustix::process::getuid().as_raw());
    let explicit_python = args.python.as_deref().map(|path| here.join(path));
    let variable = |name: &str| match &args.origin {
        Some(origin) => {
            let kept = origin.surroundings.iter().find(|(kept, _)| kept == name);
            kept.map(|(_, value)| value.clone())
        }
        None => std::env::var_os(name),
    };
    let found = Surroundings::from_variables(variable, here, user);
    Ok(Surroundings { explicit_python, ..found })
}

/// The wall that the caller names; options of the container wall name it too.
pub(super) fn provider(args: &SandboxArgs) -> Option<String> {
    let is_container = args.image.is_some()
        || args.pull.is_some()
        || args.require_hardened_image
        || args.runtime.is_some()
        || args.docker_url.is_some();
    let implied = match is_container {
        true => Some(CONTAINERS),
        false => args.azure.is_used().then_some(MANAGED),
    };
    args.provider.clone().or_else(|| implied.map(str::to_owned))
}

/// The wall of the options `--aca-…`.
pub(crate) const MANAGED: &str = "aca";

/// The wall of `--image`, `--runtime` and `--docker-url`.
pub(super) const CONTAINERS: &str = "docker";

/// The container engine and runtime. Refuses options of two different walls.
pub(crate) fn containers(args: &SandboxArgs) -> Result<ContainerChoice, Problem> {
    let is_container = provider(args).is_some_and(|name| name == CONTAINERS);
    if is_container && args.python.is_some() {
        let message = "--python names a Python of this host, and a container has its image's";
        return Err(Problem::new(message, "name an image with that Python, with --image"));
    }
    if !is_container && (args.runtime.is_some() || args.docker_url.is_some()) {
        let message = "--runtime and --docker-url belong to --provider docker";
        return Err(Problem::new(message, "leave them out, or use that wall"));
    }
    if !is_container && args.require_hardened_image {
        let message = "--require-hardened-image: only --provider docker has that image";
        return Err(Problem::new(message, "leave it out, or use that wall"));
    }
    if !is_container && args.image.is_none() && args.pull.is_some() {
        let message = "--pull belongs to --provider docker";
        return Err(Problem::new(message, "leave it out, or use that wall"));
    }
    let is_managed = provider(args).is_some_and(|name| name == MANAGED);
    if is_managed && args.python.is_some() {
        let message = "--python names a Python of this host, and a managed sandbox has its disk's";
        return Err(Problem::new(message, "name a disk with that Python, with --aca-disk"));
    }
    if !is_managed && args.azure.is_used() {
        let message = "options that begin with --aca- belong to --provider aca";
        return Err(Problem::new(message, "leave them out, or use that wall"));
    }
    Ok(ContainerChoice {
        url: args.docker_url.clone(),
        runtime: args.runtime.clone(),
        azure: is_managed.then(|| args.azure.choice()),
    })
}

/// The absolute paths of the files that control what runs may do: policies, seccomp profiles and
/// tools files. For an open descriptor, the path it was opened with.
fn decisive<'f>(
    files: impl Iterator<Item = &'f PathBuf>,
    policy: &Policy,
    here: &Path,
) -> Vec<PathBuf> {
    let opened = |descriptor: &Path| {
        let is_file = descriptor.metadata().is_ok_and(|found| found.is_file());
        is_file.then(|| descriptor.read_link().ok()).flatten()
    };
    let path = |file: &'f PathBuf| match load::is_standard_input(file) {
        true => opened(Path::new("/proc/self/fd/0")),
        false if load::is_descriptor(file) => opened(file),
        false => Some(here.join(file)),
    };
    let profiles = policy.seccomp.iter().map(|profile| profile.value.clone());
    files.filter_map(path).chain(profiles).collect()
}

/// A directory to use as `/`. A directory that may not be mounted may not be the root either.
fn root(directory: &Path, here: &Path) -> Result<Root, Problem> {
    let path: PathBuf = here.join(directory);
    let shown = directory.display();
    let cannot = |why: String, remedy: &str| Problem::new(format!("--root {shown}: {why}"), remedy);
    let kind = path
        .metadata()
        .map_err(|error| cannot(error.to_string(), "name a directory with an unpacked image"))?;
    if !kind.is_dir() {
        return Err(cannot("not a directory".to_owned(), "name the directory of the image"));
    }
    let text = path
        .to_str()
        .ok_or_else(|| cannot("the path is not UTF-8 text".to_owned(), "rename it"))?;
    let as_mount =
        format!("filesystem: {{ read: [{{ host: {}, guest: /image }}] }}", flags::quoted(text));
    Policy::parse_str("--root", &as_mount, here).map_err(|errors| {
        let first = errors.diagnostics().first();
        let message = first.map_or("it cannot be mounted", |first| first.message.as_str());
        cannot(message.to_owned(), "name a directory of its own")
    })?;
    Ok(Root::Directory(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_must_be_a_mountable_directory() {
        let refused = ["/", "/etc", "/etc/passwd", "/nonexistent", "/proc"];
        for path in refused {
            let problem = root(Path::new(path), Path::new("/")).unwrap_err();
            assert!(problem.message.starts_with(&format!("--root {path}: ")), "{problem}");
        }
    }
}

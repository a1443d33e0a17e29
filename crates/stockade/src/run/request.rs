//! Converts arguments to a request.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stockade_backends::{ContainerChoice, Surroundings};
use stockade_engine::{Passage, RunRequest, SessionRequest, Tools, TrustedPaths};
use stockade_policy::{Context, Policy, WORKSPACE};
use stockade_provider::{Program, Root};

use crate::args::{RunArgs, SandboxArgs, Target};
use crate::render::Output;
use crate::render::lines::Denials;
use crate::{Problem, clock, load};

use super::changeable::Writable;
use super::hints::{Advice, Asked};
use super::image::Image;
use super::tools::Offered;
use super::variables::{Said, Variables};
use super::{certificates, flags, record, script, variables};

/// What a run starts, and in which image.
#[derive(Clone, Copy)]
pub(crate) struct Started<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) image: Option<&'a Image>,
    /// Where the image's own program starts.
    pub(crate) working_directory: Option<&'a str>,
}

/// The request to the engine, the offered tools, and the facts for hints; `options` are the
/// arguments before the target, and `denials` prints denials while the program runs. Every error in the arguments is found here.
pub(crate) fn request(
    args: &RunArgs,
    started: Started<'_>,
    options: &[OsString],
    output: Output,
    denials: Option<&Denials>,
) -> anyhow::Result<(RunRequest, Offered, Asked)> {
    let target = started.target;
    let program = program(args, target, options)?;
    let passage = match args.learn {
        Some(_) => Passage::Learning,
        None => Passage::Allowed,
    };
    let (session, offered) = session(&args.sandbox, started.image, passage, denials)?;
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

/// The sandbox that the arguments describe, and the tools that it offers, which are not started
/// yet. `image` is the one that `--image` names, and `denials` prints denials while programs run.
pub(crate) fn session(
    args: &SandboxArgs,
    image: Option<&Image>,
    passage: Passage,
    denials: Option<&Denials>,
) -> anyhow::Result<(SessionRequest, Offered)> {
    let here = load::here()?;
    let offered = Offered::read(&args.tools, &here)?;
    let mut policy = match args.policy.is_empty() {
        true => flags::preset(&args.flags, passage, &offered, &here)?,
        false => flags::tightened(load::combined(&args.policy)?, &args.flags, &here)?,
    };
    let said = Said { variables: &args.env, files: &args.env_file, secrets: &args.env_secret };
    let Variables { mut environment, credentials } =
        variables::variables(&said, |name| std::env::var_os(name))?;
    let user = rustix::process::getuid().as_raw();
    // A policy file decides alone what is visible.
    if args.policy.is_empty() && policy.may_reach_anything() {
        certificates::show(&mut policy, &mut environment, |name| std::env::var_os(name), user);
    }
    if let Some(image) = image {
        environment = image.environment(&policy, environment, !args.tools.is_empty());
    }
    let root = match (&args.root, image) {
        (Some(directory), _) => root(directory, &here)?,
        (None, Some(image)) => image.root(),
        (None, None) => Root::Standard,
    };
    let writable = Writable::of(&policy, &root)?;
    let decisive = decisive(args.policy.iter().chain(&args.tools), &policy, &here);
    let decisive_paths = TrustedPaths::of_files(decisive.iter().map(PathBuf::as_path));
    writable.refuse(&decisive_paths, "what the next run may do")?;
    offered.check(&writable)?;
    let recorder = record::recorder(args, &here, &mut policy, &root)?;
    let recorder = match denials {
        Some(denials) => recorder.map(|recorder| recorder.with_observer(denials.observer())),
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

fn program(args: &RunArgs, target: Target<'_>, options: &[OsString]) -> anyhow::Result<Program> {
    match target {
        Target::Script(script, arguments) => {
            script::program(script, args.language.as_deref(), arguments, options)
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
    let found = Surroundings::from_variables(|name| std::env::var_os(name), here, user);
    Ok(Surroundings { explicit_python, ..found })
}

/// The wall that the caller names; options of the container wall name it too.
pub(super) fn provider(args: &SandboxArgs) -> Option<String> {
    let is_container = args.image.is_some() || args.runtime.is_some() || args.docker_url.is_some();
    args.provider.clone().or_else(|| is_container.then(|| CONTAINERS.to_owned()))
}

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
    Ok(ContainerChoice { url: args.docker_url.clone(), runtime: args.runtime.clone() })
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

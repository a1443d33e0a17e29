//! The image of `--image`: found, pinned to its digest, and read for its own program.

mod machine;

use std::path::PathBuf;
use std::time::Duration;

use stockade_backends::{ContainerChoice, ContainerImage, ContainerImageWanted};
use stockade_image::{
    Dropped, Found, ImageConfig, ImageError, ImageUser, OwnProgram, Store, UserWanted, own_user_in,
    store_directory, user_in,
};
use stockade_policy::{Isolation, Policy, Workspace};
use stockade_provider::{EntryProgram, ImageRoot, Language, Root, ToolAccess, chain};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::args::{SandboxArgs, Target};
use crate::image::when;
use crate::shell::shell_word;
use crate::{Problem, render};

use super::request::{CONTAINERS, containers, provider};

/// The wall that starts from files of this host.
const NATIVE: &str = "native";

/// An image that a sandbox will start from.
#[derive(Clone)]
pub(crate) struct Image {
    /// Its digest.
    id: String,
    /// Its files, if they are on this host.
    directory: Option<PathBuf>,
    /// The disk of a machine that replaces them.
    disk: Option<PathBuf>,
    config: ImageConfig,
    user: Option<ImageUser>,
    /// Whether the caller named no user, so that the user is the image's choice.
    has_own_user: bool,
    /// The home of the image's own user, if its program runs as another one.
    home: Option<String>,
    /// Its variables that programs get.
    variables: Vec<(String, String)>,
    dropped: Vec<Dropped>,
}

/// Whether messages about an image are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Messages {
    Shown,
    Hidden,
}

impl Messages {
    pub(super) fn say(self, line: &str) {
        if self == Messages::Shown {
            render::talk(&format!("image: {line}"));
        }
    }
}

/// Whether the own program of an image may be what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnProgramUse {
    Possible,
    Never,
}

/// Finds the image that the arguments name, in the store or on the engine.
pub(crate) fn find(
    args: &SandboxArgs,
    containers: &ContainerChoice,
    own: OwnProgramUse,
    messages: Messages,
) -> Result<Option<Image>, Problem> {
    machine::refuse_installers(args)?;
    let disk = machine::disk(args, provider(args).as_deref())?;
    let reference = match (&args.image, &disk) {
        (Some(reference), _) => reference,
        (None, Some(_)) => machine::DEFAULT,
        (None, None) => return Ok(None),
    };
    // Only the default depends on what will run.
    let entry = EntryProgram::Program(String::new());
    let user = match (args.user.as_deref(), own) {
        (Some(name), _) => UserWanted::Named(name),
        (None, OwnProgramUse::Possible) => UserWanted::OfImage,
        (None, OwnProgramUse::Never) => UserWanted::Ordinary,
    };
    let of_engine = || {
        let wanted = OfEngine { reference: Some(reference), entry: &entry, user };
        let found = of_engine(args, containers, wanted, messages, Patience::OfEngine)?;
        Ok::<_, Problem>(found.into())
    };
    let image: Image = match provider(args).as_deref() {
        Some(NATIVE | machine::WALL) if args.pull.is_some() => {
            let message = "--pull: the images of this wall are not on an engine";
            return Err(Problem::new(message, "import one with `stockade image import FILE.tar`"));
        }
        Some(NATIVE) => of_store(reference, user)?,
        Some(machine::WALL) => machine::find(reference, args.user.as_deref())?,
        Some(CONTAINERS) | None => of_engine()?,
        Some(other) => {
            let message = format!("--image: the {other} wall has no images");
            return Err(Problem::new(message, "use --provider native or --provider docker"));
        }
    };
    let has_own_user = user == UserWanted::OfImage;
    Ok(Some(Image { disk, has_own_user, ..image.with_search_path() }))
}

/// Whether a policy shows files of this host, apart from those of the image.
fn shows_files(policy: &Policy) -> bool {
    !policy.mounts.is_empty() || matches!(policy.workspace.value, Workspace::Host { .. })
}

/// The default image of a sandbox that only the container wall can hold, with a message which one
/// it is.
///
/// Without an option that asks for more, an error is left to the wall, which finds it again: then
/// the record of the run has it.
pub(crate) fn standard(
    args: &SandboxArgs,
    policy: &Policy,
    entry: &EntryProgram,
    messages: Messages,
) -> Result<Option<Image>, Problem> {
    let is_container = match provider(args) {
        Some(name) => name == CONTAINERS,
        None => policy.isolation.value >= Isolation::Container,
    };
    if args.image.is_some() || args.root.is_some() || !is_container {
        return Ok(None);
    }
    let must_be_found = args.require_hardened_image || args.pull.is_some();
    let patience = if must_be_found { Patience::OfEngine } else { Patience::Short };
    let user = args.user.as_deref().map_or(UserWanted::Ordinary, UserWanted::Named);
    let wanted = OfEngine { reference: None, entry, user };
    let found = match of_engine(args, &containers(args)?, wanted, messages, patience) {
        Err(_) if !must_be_found => return Ok(None),
        found => found?,
    };
    let ContainerImage { reference, id, is_hardened, .. } = &found;
    let digest: String = id.chars().take("sha256:".len() + 12).collect();
    messages.say(&match (is_hardened, entry) {
        (false, EntryProgram::Interpreter(Language::Python) | EntryProgram::Program(_)) => {
            format!("{reference}, {digest}: the engine has no hardened image")
        }
        _ => format!("{reference}, {digest}"),
    });
    Ok(Some(Image::from(found).with_search_path()))
}

/// The image's own program, if the arguments name no other: without any, or with arguments after
/// `--` for an image that has an ENTRYPOINT.
pub(crate) fn own_program(
    image: Option<&Image>,
    named: Option<Target<'_>>,
) -> Result<Option<OwnProgram>, Problem> {
    let Some(image) = image else { return Ok(None) };
    Ok(match named {
        None => image.config.own_program(&[]),
        Some(Target::Command(words)) if !image.config.entrypoint.is_empty() => {
            image.config.own_program(words)
        }
        Some(_) => None,
    })
}

/// The error for an image that names no program.
pub(crate) fn no_program(args: &SandboxArgs) -> Problem {
    let image = args.image.as_deref().unwrap_or_default();
    let message = format!("the image {image} has neither ENTRYPOINT nor CMD");
    let wall = args.provider.as_deref().map(|wall| format!("--provider {wall} "));
    let words = format!("{}--image {}", wall.unwrap_or_default(), shell_word(image));
    Problem::new(message, format!("name a program: `stockade run {words} -- ls -l`"))
}

/// The store of this user.
pub(crate) fn store() -> Result<Store, Problem> {
    let directory = store_directory(|name| std::env::var_os(name)).ok_or_else(|| {
        let message = "there is no directory for images: neither XDG_DATA_HOME nor HOME is set";
        Problem::new(message, "set HOME")
    })?;
    Store::open(&directory).map_err(|error| problem(&error))
}

/// An error of the store, for a person.
pub(crate) fn problem(error: &ImageError) -> Problem {
    Problem::new(chain(error), error.remedy())
}

fn of_store(reference: &str, user: UserWanted<'_>) -> Result<Image, Problem> {
    let found = store()?.find(reference).map_err(|error| problem(&error))?;
    let passwd = || Store::passwd(&found).map_err(|error| problem(&error));
    let user = match (user, &found.config.user) {
        (UserWanted::Named(wanted), _) => {
            let user = user_in(&passwd()?, wanted);
            Some(user.map_err(|error| Problem::new(format!("--user: {error}"), error.remedy()))?)
        }
        (UserWanted::OfImage, Some(own)) => own_user_in(&passwd()?, own),
        (UserWanted::OfImage, None) | (UserWanted::Ordinary, _) => None,
    };
    let Found { id, root, config, held } = found;
    // This process holds the one sandbox that uses the image, until it exits.
    std::mem::forget(held);
    let (variables, dropped) = (Vec::new(), Vec::new());
    let (id, directory, has_own_user) = (id.to_string(), Some(root), false);
    let (disk, home) = (None, None);
    Ok(Image { id, directory, disk, config, user, has_own_user, home, variables, dropped })
}

/// What to ask the engine about.
struct OfEngine<'w> {
    /// The name of the image; `None` is the default for `entry`.
    reference: Option<&'w str>,
    entry: &'w EntryProgram,
    user: UserWanted<'w>,
}

fn of_engine(
    args: &SandboxArgs,
    engine: &ContainerChoice,
    OfEngine { reference, entry, user }: OfEngine<'_>,
    messages: Messages,
    patience: Patience,
) -> Result<ContainerImage, Problem> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot wait for the Docker engine: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    super::reserve_descriptors().map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let wanted = ContainerImageWanted {
        reference,
        entry,
        requires_hardened: args.require_hardened_image,
        pull: when(args.pull.as_deref()),
        user,
    };
    let progress = |line: &str| messages.say(line);
    let look = stockade_backends::container_image(engine, wanted, &progress);
    let found = runtime.block_on(async {
        match patience {
            Patience::OfEngine => Some(look.await),
            Patience::Short => timeout(SHORT, look).await.ok(),
        }
    });
    let slow = || Problem::new("the Docker engine is slow", "look at its load and its log");
    found.ok_or_else(slow)?.map_err(|error| {
        Problem::new(chain(&error), error.remedy().unwrap_or("name another image with --image"))
    })
}

/// How long to wait for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// As long as its requests may take.
    OfEngine,
    /// [`SHORT`], because the wall asks the same again.
    Short,
}

const SHORT: Duration = Duration::from_secs(3);

impl From<ContainerImage> for Image {
    fn from(found: ContainerImage) -> Image {
        let ContainerImage { id, config, user, .. } = found;
        let (variables, dropped) = (Vec::new(), Vec::new());
        Image {
            id,
            directory: None,
            disk: None,
            config,
            user,
            has_own_user: false,
            home: None,
            variables,
            dropped,
        }
    }
}

impl Image {
    /// With the search path of the image, which every program gets.
    fn with_search_path(self) -> Image {
        let path = self.config.search_path().map(|path| ("PATH".to_owned(), path));
        Image { variables: path.into_iter().collect(), ..self }
    }

    /// With all variables and the user of the image for its own program, and only its search path
    /// for others.
    pub(crate) fn for_program(self, is_own_program: bool) -> Image {
        if !is_own_program {
            let user = self.user.filter(|_| !self.has_own_user);
            return Image { user, has_own_user: false, ..self };
        }
        let found = self.config.variables();
        Image { variables: found.kept, dropped: found.dropped, ..self }
    }

    /// Prints what was left out.
    pub(crate) fn report(&self) {
        for Dropped { name, why } in &self.dropped {
            render::talk(&format!("image: dropped its variable {name}: {why}"));
        }
    }

    /// Without the image's own choice of a user if the policy shows files of the host: outside, the
    /// user's number may be that of a person, and the image, which is not trusted, chose it.
    pub(super) fn with_user_for(&self, policy: &Policy, messages: Messages) -> Image {
        let image = self.clone();
        let (true, Some(own)) = (self.has_own_user, &self.config.user) else { return image };
        match &self.user {
            Some(user) if !shows_files(policy) => {
                messages.say(&format!("its program runs as its user {own}, id {}", user.user));
                image
            }
            Some(_) => {
                messages.say(&format!(
                    "made for user {own}, and its program does not run as that user because files \
                     of this host are shown to it; pass --user {own} to ask for it"
                ));
                // What its user installed is there, such as packages of `pip install --user`.
                let home = self.user.as_ref().and_then(|user| user.home.clone());
                Image { user: None, home, ..image }
            }
            None => {
                // Programs run as user 65534 unless a user is chosen.
                const ORDINARY: [&str; 4] = ["root", "0", "65534", "65534:65534"];
                if !ORDINARY.contains(&own.as_str()) {
                    messages.say(&format!("its program cannot run as its user {own}"));
                }
                image
            }
        }
    }

    /// The root of the sandbox.
    pub(crate) fn root(&self) -> Root {
        Root::Image(ImageRoot {
            reference: self.id.clone(),
            directory: self.directory.clone(),
            user: self.user.as_ref().map(|user| (user.user, user.group)),
            disk: self.disk.clone(),
            is_hardened: self.config.has_hardened_path(),
            dropped_variables: self.dropped.iter().map(|it| it.name.clone()).collect(),
        })
    }

    /// The variables of the image and then those of the caller, which replace them. Those of the
    /// policy come from elsewhere and stay as they are.
    pub(crate) fn environment(
        &self,
        policy: &Policy,
        callers: Vec<(String, String)>,
        has_tools: bool,
    ) -> Vec<(String, String)> {
        let is_taken = |name: &str| {
            policy.environment.iter().any(|own| own.name == name)
                || policy.secrets.iter().any(|secret| secret.name == name)
        };
        let home = self.user.as_ref().and_then(|user| user.home.clone());
        let home = home.or_else(|| self.home.clone());
        let home = home.map(|home| ("HOME".to_owned(), home));
        let mut variables: Vec<(String, String)> =
            home.into_iter().chain(self.variables.iter().cloned()).collect();
        variables.retain(|(name, _)| !is_taken(name));
        for (name, value) in &mut variables {
            if name == "PATH" && has_tools {
                // Last, so that it shadows no program of the image.
                value.push(':');
                value.push_str(ToolAccess::COMMANDS);
            }
        }
        variables.extend(callers);
        variables
    }
}

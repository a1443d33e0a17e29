//! The image of `--image`: found, pinned to its digest, and read for its own program.

use std::path::PathBuf;

use stockade_backends::ContainerChoice;
use stockade_image::{
    Dropped, Found, ImageConfig, ImageError, ImageUser, OwnProgram, Store, store_directory, user_in,
};
use stockade_policy::Policy;
use stockade_provider::{ImageRoot, Root, ToolAccess, chain};
use tokio::runtime::Builder;

use crate::args::{SandboxArgs, Target};
use crate::{Problem, render};

use super::request::{CONTAINERS, provider};

/// The wall that starts from files of this host.
const NATIVE: &str = "native";

/// An image that a sandbox will start from.
pub(crate) struct Image {
    /// Its digest.
    id: String,
    /// Its files, if they are on this host.
    directory: Option<PathBuf>,
    config: ImageConfig,
    user: Option<ImageUser>,
    /// Its variables that programs get.
    variables: Vec<(String, String)>,
    dropped: Vec<Dropped>,
}

/// Finds the image that the arguments name, in the store or on the engine.
pub(crate) fn find(
    args: &SandboxArgs,
    containers: &ContainerChoice,
) -> Result<Option<Image>, Problem> {
    let Some(reference) = &args.image else { return Ok(None) };
    let user = args.user.as_deref();
    let image = match provider(args).as_deref() {
        Some(NATIVE) => of_store(reference, user)?,
        Some(CONTAINERS) => of_engine(containers, reference, user)?,
        Some(other) => {
            let message = format!("--image: the {other} wall has no images");
            return Err(Problem::new(message, "use --provider native or --provider docker"));
        }
        None => of_engine(containers, reference, user)?,
    };
    let variables = image.config.search_path().map(|path| ("PATH".to_owned(), path));
    Ok(Some(Image { variables: variables.into_iter().collect(), ..image }))
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
    Problem::new(message, format!("name a program: `stockade run --image {image} -- ls -l`"))
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

fn of_store(reference: &str, user: Option<&str>) -> Result<Image, Problem> {
    let found = store()?.find(reference).map_err(|error| problem(&error))?;
    let user = match user {
        Some(wanted) => {
            let passwd = Store::passwd(&found).map_err(|error| problem(&error))?;
            let user = user_in(&passwd, wanted);
            Some(user.map_err(|error| Problem::new(format!("--user: {error}"), error.remedy()))?)
        }
        None => None,
    };
    let Found { id, root, config, held } = found;
    // This process holds the one sandbox that uses the image, until it exits.
    std::mem::forget(held);
    let (variables, dropped) = (Vec::new(), Vec::new());
    Ok(Image { id: id.to_string(), directory: Some(root), config, user, variables, dropped })
}

fn of_engine(
    containers: &ContainerChoice,
    reference: &str,
    user: Option<&str>,
) -> Result<Image, Problem> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot wait for the Docker engine: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    super::reserve_descriptors().map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let look = stockade_backends::container_image(containers, reference, user);
    let found = runtime.block_on(look).map_err(|error| {
        Problem::new(chain(&error), error.remedy().unwrap_or("name another image with --image"))
    })?;
    let (id, config, user) = (found.id, found.config, found.user);
    let (variables, dropped) = (Vec::new(), Vec::new());
    Ok(Image { id, directory: None, config, user, variables, dropped })
}

impl Image {
    /// With all variables of the image for its own program, and only its search path for others.
    pub(crate) fn with_variables(self, is_own_program: bool) -> Image {
        if !is_own_program {
            return self;
        }
        let found = self.config.variables();
        Image { variables: found.kept, dropped: found.dropped, ..self }
    }

    /// Prints what was left out.
    pub(crate) fn report(&self) {
        for Dropped { name, why } in &self.dropped {
            render::talk(&format!("image: dropped its variable {name}: {why}"));
        }
        let own = self.config.user.as_deref().filter(|own| !["root", "0"].contains(own));
        if let (Some(own), None) = (own, &self.user) {
            render::talk(&format!("image: made for user {own}; pass --user {own} to be that user"));
        }
    }

    /// The root of the sandbox.
    pub(crate) fn root(&self) -> Root {
        Root::Image(ImageRoot {
            reference: self.id.clone(),
            directory: self.directory.clone(),
            user: self.user.as_ref().map(|user| (user.user, user.group)),
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

//! The directories that an image declares as volumes.
//!
//! For each the engine would create a volume on the host's disk, unless a container has something
//! at the same path, cleaned. So each gets a place in memory. The image is not trusted: its volumes
//! replace nothing of ours or of the caller, and no directory appears below them.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use bollard::query_parameters::ContainerArchiveInfoOptionsBuilder;
use stockade_policy::{Policy, SCRATCH, WORKSPACE, Workspace};
use stockade_provider::ToolAccess;

use crate::DockerError;
use crate::archive::SOCKET;
use crate::engine::Engine;
use crate::files::Files;

/// The most volumes of an image.
const MOST: usize = 64;

/// Where the engine and its runtime mount by themselves.
const OF_THE_ENGINE: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The volumes of an image that need a place of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volumes {
    /// Their paths, cleaned and sorted.
    pub(crate) places: Vec<String>,
    /// The paths that no link of the image may lead them to.
    guarded: Vec<PathBuf>,
}

impl Volumes {
    /// Selects those of an image's volumes at whose path nothing else is. Refuses one that would be
    /// below something of ours or of the caller.
    pub(crate) fn of(
        declared: &[String],
        policy: &Policy,
        files: &Files,
    ) -> Result<Volumes, DockerError> {
        if declared.len() > MOST {
            return Err(refused(format!(
                "it declares {}, and at most {MOST} work",
                declared.len()
            )));
        }
        let is_scratch = matches!(policy.workspace.value, Workspace::Scratch);
        let socket = Path::new(SOCKET).parent().expect("a socket has a directory");
        let closed: Vec<PathBuf> = std::iter::once(PathBuf::from(ToolAccess::DIRECTORY))
            .chain([socket.to_owned()])
            .chain(files.shown.iter().map(|shown| shown.guest.clone()))
            .chain(policy.hide.iter().map(|hide| PathBuf::from(hide.value.as_str())))
            .chain((!is_scratch).then(|| PathBuf::from(WORKSPACE)))
            .collect();
        let is_own = |path: &Path| SCRATCH.iter().any(|place| path == *place) || path == WORKSPACE;
        let mut places = Vec::new();
        for text in declared {
            let path = cleaned(text).ok_or_else(|| {
                refused(format!("{} is not an absolute path", text.escape_debug()))
            })?;
            if is_own(&path) || closed.contains(&path) {
                continue;
            }
            if let Some(above) = closed.iter().find(|above| path.starts_with(above)) {
                let (path, above) = (path.display(), above.display());
                return Err(refused(format!("{path} is below {above}, which is not the image's")));
            }
            let engine = OF_THE_ENGINE.iter().any(|own| path.starts_with(own));
            match path.to_str() {
                Some(text) if !engine && text != "/" => places.push(text.to_owned()),
                _ => return Err(refused(format!("it declares {}", path.display()))),
            }
        }
        places.sort();
        places.dedup();
        let own = SCRATCH.iter().chain([&WORKSPACE]).chain(&OF_THE_ENGINE).map(PathBuf::from);
        Ok(Volumes { places, guarded: closed.into_iter().chain(own).collect() })
    }

    /// Whether a path is at or below something of ours, of the caller or of a volume.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let mut places = self.places.iter().map(Path::new);
        places.any(|place| path.starts_with(place))
            || self.guarded.iter().any(|guarded| path.starts_with(guarded))
    }

    /// Refuses a volume that a symbolic link of the image leads to a guarded path. The container
    /// exists and has not started.
    pub(crate) async fn check_links(&self, engine: &Engine, id: &str) -> Result<(), DockerError> {
        for place in &self.places {
            let (found, _) = resolved(engine, id, Path::new(place)).await?;
            let overlaps = |it: &&PathBuf| it.starts_with(&found) || found.starts_with(it);
            if found != Path::new(place)
                && let Some(guarded) = self.guarded.iter().find(overlaps)
            {
                let guarded = guarded.display();
                return Err(refused(format!("a link in it leads {place} to {guarded}")));
            }
        }
        Ok(())
    }
}

/// A place in memory for each volume of a container that never starts.
pub(crate) fn in_memory(declared: &[String]) -> HashMap<String, String> {
    let path = |text: &String| cleaned(text)?.to_str().map(str::to_owned);
    declared.iter().filter_map(path).map(|path| (path, String::new())).collect()
}

fn refused(reason: String) -> DockerError {
    DockerError::Unsupported {
        what: "a volume of the image",
        reason,
        remedy: "mount elsewhere, or build the image without this VOLUME",
    }
}

/// An absolute path without `.`, `..` and repeated separators, as the engine cleans it.
fn cleaned(text: &str) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::RootDir => clean.push("/"),
            Component::CurDir => {}
            Component::ParentDir => _ = clean.pop(),
            Component::Normal(name) => clean.push(name),
            Component::Prefix(_) => return None,
        }
    }
    clean.is_absolute().then_some(clean)
}

/// Follows the links in a path of a container, as far as it exists. Returns also whether all of it
/// does.
pub(crate) async fn resolved(
    engine: &Engine,
    id: &str,
    path: &Path,
) -> Result<(PathBuf, bool), DockerError> {
    let mut found = PathBuf::from("/");
    let mut names = path.iter().skip(1);
    for name in names.by_ref() {
        found.push(name);
        let options =
            ContainerArchiveInfoOptionsBuilder::new().path(&found.to_string_lossy()).build();
        let look = async {
            match engine.docker.get_container_archive_info(id, Some(options)).await {
                Err(bollard::errors::Error::DockerResponseServerError {
                    status_code: 404, ..
                }) => Ok(None),
                found => found.map(Some),
            }
        };
        match engine.ask("look at a path of the image", look).await? {
            // The engine has followed the link as far as it leads.
            Some(file) if !file.link_target.is_empty() => {
                found = cleaned(&file.link_target).unwrap_or_else(|| PathBuf::from("/"));
            }
            Some(_) => {}
            None => {
                found.extend(names);
                return Ok((found, false));
            }
        }
    }
    Ok((found, true))
}

#[cfg(test)]
mod tests {
    use stockade_hostfiles::{Mode, Shown, TreeKind};

    use super::*;

    fn selected(policy: &str, guests: &[&str], declared: &[&str]) -> Result<Vec<String>, String> {
        let policy = Policy::parse_str("p", policy, Path::new("/srv")).unwrap();
        let shown = guests.iter().map(|guest| Shown {
            host: "/srv".into(),
            guest: PathBuf::from(guest),
            kind: TreeKind::Directory,
            mode: Mode::Write,
        });
        let files = Files { shown: shown.collect(), user: (65534, 65534) };
        let declared: Vec<String> = declared.iter().map(|it| (*it).to_owned()).collect();
        let volumes = Volumes::of(&declared, &policy, &files);
        volumes.map(|volumes| volumes.places).map_err(|error| error.to_string())
    }

    #[test]
    fn volumes_are_cleaned_and_replace_nothing_of_ours_or_of_the_caller() {
        let declared = [
            "/data/",
            "//double//x/",
            "/a/../b/./c",
            "/../up",
            "/workspace/",
            "/x/../tmp",
            "/run",
            "/run/stockade/",
            "/output",
            "/opt/hidden",
            "/data",
            "/run/own",
        ];
        let found = selected("filesystem: { hide: [/opt/hidden] }", &["/output"], &declared);
        assert_eq!(found.unwrap(), ["/b/c", "/data", "/double/x", "/run/own", "/up"]);
        let read = "filesystem: { workspace: { host: /srv, mode: read } }";
        assert_eq!(selected(read, &[], &["/workspace"]).unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn volume_below_something_of_ours_or_of_the_caller_is_refused() {
        let read = "filesystem: { workspace: { host: /srv, mode: read }, hide: [/opt/hidden] }";
        for (policy, declared, part) in [
            ("{}", "/output/made", "is below /output"),
            ("{}", "/run/stockade/guest", "is below /run/stockade"),
            ("{}", "/run/stockade-guest/x", "is below /run/stockade-guest"),
            (read, "/workspace/x", "is below /workspace"),
            (read, "/opt/hidden/x", "is below /opt/hidden"),
            ("{}", "/", "it declares /"),
            ("{}", "/..", "it declares /"),
            ("{}", "/proc/self", "it declares /proc/self"),
            ("{}", "/dev", "it declares /dev"),
            ("{}", "relative", "not an absolute path"),
            ("{}", "", "not an absolute path"),
        ] {
            let refused = selected(policy, &["/output"], &[declared]).unwrap_err();
            assert!(refused.contains(part), "{declared}: {refused}");
        }
        let many: Vec<String> = (0..=MOST).map(|number| format!("/v{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(selected("{}", &[], &many).is_err());
    }
}

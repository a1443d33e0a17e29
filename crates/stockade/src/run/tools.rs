//! The tools that a run offers: files that are read before anything else is done, and servers that
//! are started only when the run is.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stockade_engine::{Tools, ToolsError, ToolsFile};
use stockade_policy::{Policy, SYSTEM};
use stockade_provider::{Root, chain};

use crate::{Problem, load};

use super::aliases::Mounts;
use super::record::{real, shown};

/// What was read of `--tools`. Nothing was started.
#[derive(Default)]
pub(crate) struct Offered(Vec<ToolsFile>);

impl Offered {
    /// Reads and checks the files. A name may be in one of them only.
    pub(crate) fn read(files: &[PathBuf], here: &Path) -> anyhow::Result<Offered> {
        load::refuse_shared_input(files.iter().map(PathBuf::as_path))?;
        let offered = files.iter().map(|file| read(file, here)).collect::<Result<_, _>>();
        let offered = Offered(offered?);
        let mut names: Vec<&str> = offered.names().collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[one, other]| one == other) {
            let message = format!("two files of --tools have a tool with the name `{name}`");
            return Err(Problem::new(message, "give one of them another name").into());
        }
        Ok(offered)
    }

    /// The names of all tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(ToolsFile::names)
    }

    /// Refuses tools that the run could change: what they run, they run outside of every wall.
    pub(crate) fn check(&self, policy: &Policy, root: &Root) -> anyhow::Result<()> {
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let shown = shown(policy, root).into_iter().filter(|shown| shown.is_writable);
        let writable: Vec<PathBuf> = shown.map(|shown| real(&shown.host)).collect();
        if writable.is_empty() {
            return Ok(());
        }
        let mounts = Mounts::look()?;
        for file in &self.0 {
            let found = file.deciding(&search_path);
            for name in &found.names {
                for name in mounts.aliases(name) {
                    if let Some(place) = writable.iter().find(|place| name.starts_with(place)) {
                        return Err(changeable(&name, place).into());
                    }
                }
            }
            for tree in &found.trees {
                if let Some(place) = writable.iter().find(|place| place.starts_with(tree)) {
                    return Err(changeable(tree, place).into());
                }
            }
            for linked in &found.linked {
                // The system's own programs have further names among themselves.
                let is_system = SYSTEM.iter().any(|system| linked.starts_with(system));
                let device = |path: &Path| path.metadata().ok().map(|data| data.dev());
                let same = writable.iter().find(|place| device(place) == device(linked));
                if let (false, Some(place)) = (is_system, same) {
                    return Err(changeable(linked, place).into());
                }
            }
        }
        Ok(())
    }

    /// Starts what has to be started for the tools that the policy names.
    pub(crate) async fn start(self, policy: &Policy) -> Result<Tools, Problem> {
        let is_listed = |name: &str| policy.tools.value.iter().any(|tool| tool.value == name);
        let mut tools = Tools::new();
        for mut file in self.0 {
            file.need_only(is_listed);
            let started = file.start().await.map_err(|error| problem(&error))?;
            tools.merge(started).map_err(|error| problem(&error))?;
        }
        Ok(tools)
    }
}

fn read(file: &Path, here: &Path) -> anyhow::Result<ToolsFile> {
    let text = load::tools(file)?;
    let name =
        if load::is_standard_input(file) { "standard input" } else { &*file.to_string_lossy() };
    // What a file names is meant from where it is; a text without a place is meant from here.
    let has_place = !load::is_standard_input(file) && !load::is_descriptor(file);
    let above = file.parent().filter(|_| has_place).unwrap_or(Path::new(""));
    ToolsFile::parse(name, &text, &here.join(above))
        .map_err(|errors| Problem::refused(&errors, "docs/tools.md lists every key").into())
}

fn changeable(path: &Path, place: &Path) -> Problem {
    let message = format!(
        "the program could change {}, which decides what a tool does outside of the wall: {} can be \
         written from inside",
        path.display(),
        place.display()
    );
    let remedy = "keep tools and what they use outside of what can be written, or show it read-only \
                  or with the mode overlay";
    Problem::new(message, remedy)
}

fn problem(error: &ToolsError) -> Problem {
    let remedy = match error {
        ToolsError::Start { .. } | ToolsError::Absent { .. } => {
            "install its program, or correct `command` in the file of tools"
        }
        ToolsError::NotExecutable { .. } => {
            "make it executable with chmod +x, or name what runs it first, such as python3"
        }
        ToolsError::Missing { .. } => "name one that it has, or take another version of the server",
        ToolsError::HeaderFile { .. } => "check the path and its permissions",
        ToolsError::Roots { .. } => "install the certificates of the system (ca-certificates)",
        _ => "correct the file of tools, or leave --tools out",
    };
    Problem::new(chain(error), remedy)
}

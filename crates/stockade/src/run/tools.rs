//! The tools that a run offers. The files are read first; servers start only with the run.

use std::path::{Path, PathBuf};

use stockade_engine::{Tools, ToolsError, ToolsFile};
use stockade_policy::Policy;
use stockade_provider::chain;

use crate::{Problem, load};

use super::changeable::Writable;

/// The parsed `--tools` files. No server is started yet.
#[derive(Default)]
pub(crate) struct Offered(Vec<ToolsFile>);

impl Offered {
    /// Reads and checks the files. A tool name may occur only once.
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

    /// Refuses tools whose files the run could change: tools run outside of the wall.
    pub(crate) fn check(&self, writable: &Writable) -> anyhow::Result<()> {
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        for file in &self.0 {
            writable.refuse(
                &file.trusted_paths(&search_path),
                "what a tool does outside of the wall",
            )?;
        }
        Ok(())
    }

    /// Starts the servers of the tools that the policy names.
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
    // Paths in a file are relative to its directory; in a text without a path, to the working
    // directory.
    let has_place = !load::is_standard_input(file) && !load::is_descriptor(file);
    let above = file.parent().filter(|_| has_place).unwrap_or(Path::new(""));
    ToolsFile::parse(name, &text, &here.join(above))
        .map_err(|errors| Problem::refused(&errors, "docs/tools.md lists every key").into())
}

fn problem(error: &ToolsError) -> Problem {
    let remedy = match error {
        ToolsError::Start { .. } | ToolsError::Absent { .. } => {
            "install its program, or correct `command` in the tools file"
        }
        ToolsError::NotExecutable { .. } => {
            "make it executable with chmod +x, or name what runs it first, such as python3"
        }
        ToolsError::Missing { .. } => "name one that it has, or take another version of the server",
        ToolsError::HeaderFile { .. } => "check the path and its permissions",
        ToolsError::Roots { .. } => "install the certificates of the system (ca-certificates)",
        _ => "correct the tools file, or leave --tools out",
    };
    Problem::new(chain(error), remedy)
}

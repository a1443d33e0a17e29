//! The tools that a run offers. The files are read first; servers start only with the run.

use std::path::{Path, PathBuf};

use stockade_engine::{Tools, ToolsError, ToolsFile};
use stockade_policy::Policy;
use stockade_provider::chain;

use crate::{Problem, load};

use super::changeable::Writable;

/// The parsed `--tools` files. No server is started yet.
#[derive(Default)]
pub(crate) struct Offered {
    files: Vec<ToolsFile>,
    /// Each file's name, the directory of its relative paths, and its text.
    texts: Vec<Text>,
}

/// The name of a tools file, the directory of its relative paths, and its text.
pub(crate) type Text = (String, PathBuf, Vec<u8>);

impl Offered {
    /// Reads and checks the files. A tool name may occur only once.
    pub(crate) fn read(files: &[PathBuf], here: &Path) -> anyhow::Result<Offered> {
        load::refuse_shared_input(files.iter().map(PathBuf::as_path))?;
        let texts =
            files.iter().map(|file| read_file(file, here)).collect::<Result<Vec<_>, _>>()?;
        Offered::kept(&texts)
    }

    /// Checks files that were read before.
    pub(crate) fn kept(texts: &[Text]) -> anyhow::Result<Offered> {
        let files = texts.iter().map(|(name, directory, text)| {
            ToolsFile::parse(name, text, directory)
                .map_err(|errors| Problem::refused(&errors, "docs/tools.md lists every key"))
        });
        let files = files.collect::<Result<_, _>>()?;
        let offered = Offered { files, texts: texts.to_vec() };
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
        self.files.iter().flat_map(ToolsFile::names)
    }

    /// What a checkpoint keeps of them.
    pub(crate) fn texts(&self) -> &[Text] {
        &self.texts
    }

    /// Refuses tools whose files the run could change: tools run outside of the wall.
    pub(crate) fn check(&self, writable: &Writable) -> anyhow::Result<()> {
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        for file in &self.files {
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
        for mut file in self.files {
            file.need_only(is_listed);
            let started = file.start().await.map_err(|error| problem(&error))?;
            tools.merge(started).map_err(|error| problem(&error))?;
        }
        Ok(tools)
    }
}

fn read_file(file: &Path, working_directory: &Path) -> anyhow::Result<Text> {
    let text = load::tools(file)?;
    let name =
        if load::is_standard_input(file) { "standard input" } else { &*file.to_string_lossy() };
    // Paths in a file are relative to its directory; in a text without a path, to the working
    // directory.
    let has_place = !load::is_standard_input(file) && !load::is_descriptor(file);
    let above = file.parent().filter(|_| has_place).unwrap_or(Path::new(""));
    Ok((name.to_owned(), working_directory.join(above), text))
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

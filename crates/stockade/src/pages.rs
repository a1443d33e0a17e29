//! Completion scripts and manual pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::Problem;
use crate::args::Cli;
use crate::render::{self, Output};

pub(crate) fn completions(shell: Shell, output: Output) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "stockade", &mut script);
    let script = String::from_utf8(script)?;
    match output {
        Output::Json => render::json(&json!({ "shell": shell.to_string(), "script": script }))?,
        Output::Text => render::data(&script)?,
    }
    Ok(0)
}

pub(crate) fn man(directory: Option<&Path>, output: Output) -> anyhow::Result<u8> {
    let mut root = Cli::command();
    root.build();
    let Some(directory) = directory else {
        let page = page(&root)?;
        match output {
            Output::Json => render::json(&json!({ "name": "stockade.1", "page": page }))?,
            Output::Text => render::data(&page)?,
        }
        return Ok(0);
    };
    let mut pages = Vec::new();
    collect(&root, "stockade", &mut pages)?;
    std::fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))?;
    let mut written = Vec::new();
    for (name, page) in pages {
        let file = directory.join(&name);
        std::fs::write(&file, page).map_err(|error| cannot_write(&file, &error))?;
        written.push(file.display().to_string());
    }
    match output {
        Output::Json => render::json(&json!({ "written": written }))?,
        Output::Text => written.iter().try_for_each(|file| render::text(&format!("{file}\n")))?,
    }
    Ok(0)
}

/// The page of a command and of all its subcommands.
fn collect(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, String)>,
) -> anyhow::Result<()> {
    pages.push((format!("{name}.1"), page(&command.clone().display_name(name.to_owned()))?));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(String::from_utf8(page)?)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Problem {
    let message = format!("cannot write manual pages to {}: {error}", path.display());
    Problem::new(message, "choose a directory you may write to")
}

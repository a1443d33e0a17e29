//! Hints for a program that is missing inside: whether the host has it, and what shows it.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stockade_backends::OWN_DIRECTORIES;
use stockade_policy::{Access, SEARCH_PATH, Workspace};
use stockade_provider::Language;

use super::{Advice, Asked, can_be_mounted, way};
use crate::shell::shell_word;

/// Where the workspace is inside.
const WORKSPACE: &str = "/workspace/";

/// A hint for a program name that was not found inside.
pub(super) fn missing(name: &str, asked: &Asked) -> Option<String> {
    if !name.contains('/') {
        return by_name(name, asked);
    }
    let host = on_host(name, asked)?;
    of_environment(name, &host, asked).or_else(|| behind_a_link(name, &host, asked))
}

/// A program without a directory: the caller's search path shows whether the host has it.
fn by_name(name: &str, asked: &Asked) -> Option<String> {
    let path = asked.search_path.clone()?;
    let found = env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|file| is_program(file));
    let Some(found) = found else {
        return Some(format!(
            "there is no program `{name}` in the PATH of this host either; install it here first"
        ));
    };
    if let Some(hint) = of_environment(name, &found, asked) {
        return Some(hint);
    }
    let is_system =
        found.parent().is_some_and(|own| SEARCH_PATH.iter().any(|dir| own == Path::new(dir)));
    let shown = found.to_str().filter(|_| !is_system)?;
    let start = format!("`{name}` is {shown} on this host, which is not visible inside");
    Some(match can_be_mounted(shown, Access::Read) {
        true => {
            format!("{start}; {}, to be run by that path", way(shown, Access::Read, asked.advice))
        }
        false => format!("{start} and cannot be shown; install it for the whole system"),
    })
}

/// A hint for a shell that ended because it found no program: which directories of the caller's
/// PATH it did not search, and why.
pub(super) fn of_shell(code: i32, asked: &Asked) -> Option<String> {
    /// What shells exit with, see sh(1).
    const NOT_FOUND: i32 = 127;
    const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];
    let started = asked.argv.first().and_then(|name| name.rsplit('/').next());
    let is_shell = asked.language == Some(Language::Bash)
        || started.is_some_and(|started| SHELLS.contains(&started));
    if code != NOT_FOUND || !is_shell {
        return None;
    }
    let (path, home) = (asked.search_path.as_ref()?, asked.home.as_ref()?);
    let on_path: Vec<PathBuf> = env::split_paths(path).collect();
    let is_shown =
        |own: &Path| asked.policy.mounts.iter().any(|mount| own.starts_with(mount.guest.as_str()));
    let mut hidden = OWN_DIRECTORIES
        .iter()
        .map(|own| home.join(own))
        .filter(|own| on_path.contains(own) && own.is_dir() && !is_shown(own));
    let first = hidden.next()?;
    let shown = first.to_str().filter(|shown| can_be_mounted(shown, Access::Read))?;
    let others: String = hidden.map(|own| format!(" and {}", own.display())).collect();
    Some(format!(
        "a shell inside searches the system's directories, and not {shown}{others} of your PATH, \
         which are shown only to a program of theirs that you name after `--`; {}, also to shells",
        way(shown, Access::Read, asked.advice)
    ))
}

/// A program of a virtual environment: `--python` shows the environment with its installation.
fn of_environment(name: &str, host: &Path, asked: &Asked) -> Option<String> {
    let environment = host.parent().filter(|bin| bin.ends_with("bin"))?.parent()?;
    if asked.advice != Advice::Flags || !environment.join("pyvenv.cfg").is_file() {
        return None;
    }
    let written = environment.strip_prefix(&asked.here).unwrap_or(environment);
    let program = host.file_name()?.to_str()?;
    let words = [written.to_str()?, "--", program].map(shell_word);
    let rest = asked.argv.iter().skip(1).map(|word| shell_word(word));
    let words: Vec<String> = words.into_iter().chain(rest).collect();
    Some(format!(
        "{name} belongs to a virtual environment, and the installation that it is based on is not \
         visible inside; `stockade run --python {}` shows both",
        words.join(" ")
    ))
}

/// A file that is shown inside as a link to a place that is not.
fn behind_a_link(name: &str, host: &Path, asked: &Asked) -> Option<String> {
    let target = host.canonicalize().ok().filter(|target| target != host)?;
    let own = match &asked.policy.workspace.value {
        Workspace::Host { host, .. } => Some(host),
        Workspace::Scratch | Workspace::Nothing => None,
    }?;
    if !host.starts_with(own) || target.starts_with(own) {
        return None;
    }
    let shown = target.to_str()?;
    let start = format!("{name} is a link to {shown}, which is not visible inside");
    Some(match can_be_mounted(shown, Access::Read) {
        true => format!("{start}; {}", way(shown, Access::Read, asked.advice)),
        false => start,
    })
}

/// The host's path of a name that the caller wrote for a program inside.
fn on_host(name: &str, asked: &Asked) -> Option<PathBuf> {
    let path = match (&asked.policy.workspace.value, name.strip_prefix(WORKSPACE)) {
        (Workspace::Host { host, .. }, Some(rest)) => host.join(rest),
        (Workspace::Host { host, .. }, None) if !name.starts_with('/') => host.join(name),
        _ => asked.here.join(name),
    };
    // A link that leads nowhere is missing on the host too.
    path.exists().then_some(path)
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::tests::asked;
    use super::*;

    fn program(file: &Path) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn in_directory(here: &Path, argv: &[&str]) -> Asked {
        let policy = format!("filesystem: {{ workspace: {{ host: {} }} }}", here.display());
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let search_path = Some(here.join("bin").into());
        Asked { argv, search_path, here: here.to_owned(), ..asked(&policy) }
    }

    #[test]
    fn program_that_the_host_lacks_is_told_apart_from_one_that_is_not_shown() {
        let scratch = tempfile::tempdir().unwrap();
        let here = scratch.path();
        program(&here.join("bin/tool"));
        let shown = here.join("bin/tool").display().to_string();
        let asked = in_directory(here, &["tool"]);
        let hint = missing("tool", &asked).unwrap();
        assert!(hint.starts_with(&format!("`tool` is {shown} on this host")), "{hint}");
        assert!(hint.contains(&format!("--mount {shown}:{shown}")), "{hint}");
        let hint = missing("ruby-of-nobody", &asked).unwrap();
        assert!(hint.contains("in the PATH of this host either"), "{hint}");
    }

    #[test]
    fn shell_that_finds_no_program_gets_the_directories_that_it_does_not_search() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path();
        for own in OWN_DIRECTORIES {
            program(&home.join(own).join("tool"));
        }
        let [cargo, local] = OWN_DIRECTORIES.map(|own| home.join(own).display().to_string());
        let search_path = Some(format!("{cargo}:{local}:/usr/bin").into());
        let of = |argv: &[&str], policy: &str| Asked {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            search_path: search_path.clone(),
            home: Some(home.to_owned()),
            ..asked(policy)
        };
        let hint = of_shell(127, &of(&["sh", "-c", "tool"], "{}")).unwrap();
        assert!(hint.contains(&format!("and not {cargo} and {local} of your PATH")), "{hint}");
        assert!(hint.contains(&format!("--mount {cargo}:{cargo} shows it")), "{hint}");
        let shown = format!("filesystem: {{ read: [ {cargo} ] }}");
        let hint = of_shell(127, &of(&["/bin/bash", "-c", "tool"], &shown)).unwrap();
        assert!(hint.contains(&format!("and not {local} of your PATH")), "{hint}");
        assert_eq!(of_shell(1, &of(&["sh", "-c", "false"], "{}")), None);
        assert_eq!(of_shell(127, &of(&["python3", "-c", "exit(127)"], "{}")), None);
    }

    #[test]
    fn program_of_an_environment_gets_the_python_flag_and_not_the_workspace() {
        let scratch = tempfile::tempdir().unwrap();
        let here = scratch.path().join("project");
        program(&scratch.path().join("base/python3.11"));
        std::fs::create_dir_all(here.join("venv/bin")).unwrap();
        std::fs::write(here.join("venv/pyvenv.cfg"), "home = /x\n").unwrap();
        symlink(scratch.path().join("base/python3.11"), here.join("venv/bin/python")).unwrap();
        let absolute = here.join("venv/bin/python").display().to_string();
        for name in ["venv/bin/python", "/workspace/venv/bin/python", &absolute] {
            let hint = missing(name, &in_directory(&here, &[name, "-c", "1"])).unwrap();
            assert!(hint.contains("`stockade run --python venv -- python -c 1`"), "{hint}");
        }
    }

    #[test]
    fn link_out_of_the_workspace_is_named_with_its_target() {
        let scratch = tempfile::tempdir().unwrap();
        let here = scratch.path().join("project");
        std::fs::create_dir(&here).unwrap();
        let target = scratch.path().canonicalize().unwrap().join("real/tool");
        program(&target);
        symlink(&target, here.join("tool")).unwrap();
        let hint = missing("./tool", &in_directory(&here, &["./tool"])).unwrap();
        assert!(hint.contains(&format!("a link to {}", target.display())), "{hint}");
        assert_eq!(missing("./gone", &in_directory(&here, &["./gone"])), None);
    }
}

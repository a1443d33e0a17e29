//! Shims of version managers.

use std::path::{Path, PathBuf};

use stockade_interpreters::{
    Chosen, InterpreterError, Manager, Problem, Skipped, Surroundings, find,
};
use stockade_provider::Language;

use crate::home::{Home, found, own_binds, refusal};

fn pyenv(home: &Home) -> PathBuf {
    let root = home.path(".pyenv");
    let text = format!(
        "#!/usr/bin/env bash\nset -e\nprogram=\"${{0##*/}}\"\nexport PYENV_ROOT=\"{0}\"\n\
         exec \"{0}/libexec/pyenv\" exec \"$program\" \"$@\"\n",
        root.display()
    );
    home.script(".pyenv/shims/python3", &text);
    home.script(".pyenv/shims/python", &text);
    for (version, minor) in [("3.11.9", "3.11"), ("3.11.10", "3.11"), ("3.12.1", "3.12")] {
        home.python(&format!(".pyenv/versions/{version}"), minor);
    }
    root
}

fn prefix(root: &Path, version: &str) -> PathBuf {
    root.join("versions").join(version)
}

#[test]
fn pyenv_uses_the_variable_then_the_nearest_file_then_the_global_one() {
    let home = Home::new();
    let root = pyenv(&home);
    let global = home.file(".pyenv/version", "3.12.1\n");
    let mut surroundings = home.with_path(&[root.join("shims")]);
    let chosen = |version: &str, said_by: String| {
        Some(Chosen { manager: Manager::Pyenv, version: version.to_owned(), said_by })
    };
    let interpreter = found(&surroundings);
    assert_eq!(interpreter.chosen, chosen("3.12.1", global.display().to_string()));
    assert_eq!(own_binds(&interpreter), [prefix(&root, "3.12.1")]);

    let file = home.file(".python-version", "# project\n3.11.9\n");
    assert_eq!(found(&surroundings).chosen, chosen("3.11.9", file.display().to_string()));

    surroundings.pyenv_version = Some("2.7.18:3.11.10".into());
    let interpreter = found(&surroundings);
    assert_eq!(interpreter.chosen, chosen("3.11.10", "PYENV_VERSION".to_owned()));
    assert_eq!(interpreter.program, prefix(&root, "3.11.10").join("bin/python3"));
}

#[test]
fn pyenv_uses_the_newest_of_a_minor_version() {
    let home = Home::new();
    let root = pyenv(&home);
    home.file("project/.python-version", "3.11");
    let interpreter = found(&home.with_path(&[root.join("shims")]));
    assert_eq!(own_binds(&interpreter), [prefix(&root, "3.11.10")]);
}

#[test]
fn pyenv_version_system_continues_along_path() {
    let home = Home::new();
    let root = pyenv(&home);
    home.file(".pyenv/version", "system");
    let other = home.python("other", "3.10");
    let interpreter = found(&home.with_path(&[root.join("shims"), other.join("bin")]));
    assert_eq!(interpreter.program, other.join("bin/python3"));
    let why = Problem::Shims { manager: Manager::Pyenv };
    assert_eq!(interpreter.skipped, [Skipped { place: root.join("shims"), why }]);
}

#[test]
fn pyenv_environment_is_a_virtual_environment() {
    let home = Home::new();
    let root = pyenv(&home);
    let base = prefix(&root, "3.11.9");
    let environment = home.environment(".pyenv/versions/3.11.9/envs/mine", &base.join("bin"));
    let link = home.link(".pyenv/versions/mine", &environment);
    home.file("project/.python-version", "mine");
    let interpreter = found(&home.with_path(&[root.join("shims")]));
    assert_eq!(interpreter.program, link.join("bin/python3"));
    let mut expected = vec![base.join("bin"), base.join("lib"), environment];
    expected.sort();
    assert_eq!(own_binds(&interpreter), expected);
    assert!(interpreter.links.iter().any(|made| made.at == link));
}

#[test]
fn version_that_is_not_installed_is_refused_rather_than_replaced() {
    let home = Home::new();
    let root = pyenv(&home);
    let file = home.file("project/.python-version", "3.9.1");
    let problem = refusal(&home.with_path(&[root.join("shims"), "/usr/bin".into()]));
    let versions = vec!["3.9.1".to_owned()];
    let (said_by, place) = (file.display().to_string(), root.join("versions"));
    let manager = Manager::Pyenv;
    assert_eq!(problem, Problem::NotInstalled { manager, versions, said_by, place });
}

#[test]
fn version_file_cannot_lead_out_of_the_versions_directory() {
    let home = Home::new();
    let root = pyenv(&home);
    home.python("evil", "3.11");
    let file = home.file("project/.python-version", "../../evil");
    let problem = refusal(&home.with_path(&[root.join("shims")]));
    let (text, said_by) = ("../../evil".to_owned(), file.display().to_string());
    assert_eq!(problem, Problem::BadVersion { manager: Manager::Pyenv, text, said_by });
}

fn asdf(home: &Home, tool: &str, program: &str, version: &str) -> PathBuf {
    let text = format!(
        "#!/usr/bin/env bash\n# asdf-plugin: {tool} {version}\nexec asdf exec \"{program}\" \"$@\"\n"
    );
    home.script(&format!(".asdf/shims/{program}"), &text);
    home.path(".asdf")
}

#[test]
fn asdf_uses_the_nearest_file_that_names_the_tool() {
    let home = Home::new();
    let root = asdf(&home, "python", "python3", "3.11.7");
    let prefix = home.python(".asdf/installs/python/3.11.7", "3.11");
    home.file("project/.tool-versions", "nodejs 20.1.0\n");
    let file = home.file(".tool-versions", "python 3.9.0 3.11.7\n");
    let mut surroundings = home.with_path(&[root.join("shims")]);
    let interpreter = found(&surroundings);
    assert_eq!(own_binds(&interpreter), [prefix]);
    let (manager, version) = (Manager::Asdf, "3.11.7".to_owned());
    let said_by = file.display().to_string();
    assert_eq!(interpreter.chosen, Some(Chosen { manager, version, said_by }));

    surroundings.asdf_python_version = Some("3.9.0".into());
    assert!(matches!(refusal(&surroundings), Problem::NotInstalled { .. }));
}

#[test]
fn asdf_without_a_version_is_refused() {
    let home = Home::new();
    let root = asdf(&home, "python", "python3", "3.11.7");
    let problem = refusal(&home.with_path(&[root.join("shims")]));
    assert_eq!(problem, Problem::NoVersion { manager: Manager::Asdf });
}

#[test]
fn asdf_node_is_found() {
    let home = Home::new();
    let root = asdf(&home, "nodejs", "node", "20.1.0");
    let node = home.executable(".asdf/installs/nodejs/20.1.0/bin/node");
    home.directory(".asdf/installs/nodejs/20.1.0/include/node");
    home.file(".tool-versions", "nodejs 20.1.0");
    let surroundings = home.with_path(&[root.join("shims")]);
    assert_eq!(find(Language::JavaScript, &surroundings).unwrap().program, node);
}

#[test]
fn volta_node_is_the_pinned_one_or_the_default() {
    let home = Home::new();
    home.executable(".volta/bin/volta-shim");
    let shim = home.link(".volta/bin/node", "volta-shim");
    for version in ["18.0.0", "20.1.0"] {
        home.executable(&format!(".volta/tools/image/node/{version}/bin/node"));
    }
    home.file(".volta/tools/user/platform.json", r#"{"node":{"runtime":"18.0.0","npm":null}}"#);
    let surroundings = home.with_path(&[shim.parent().unwrap()]);
    let node = |version| home.path(&format!(".volta/tools/image/node/{version}/bin/node"));
    let find = || find(Language::JavaScript, &surroundings);
    assert_eq!(find().unwrap().program, node("18.0.0"));
    home.file("project/package.json", r#"{"volta":{"node":"20.1.0"}}"#);
    assert_eq!(find().unwrap().program, node("20.1.0"));
    home.file("project/package.json", r#"{"volta":{"node":"../../../x"}}"#);
    assert!(matches!(find(), Err(InterpreterError::Refused { .. })));
}

#[test]
fn shim_of_an_unknown_manager_is_refused() {
    let home = Home::new();
    let mise = home.executable(".local/bin/mise");
    let shim = home.link(".local/share/mise/shims/python3", &mise);
    let explicit_python = Some(shim);
    let surroundings = Surroundings { explicit_python, ..home.surroundings() };
    assert_eq!(refusal(&surroundings), Problem::OtherProgram { real: mise });
}

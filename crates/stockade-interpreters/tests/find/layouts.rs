//! Environments and installations.

use std::fs;

use stockade_interpreters::{Bind, Origin, Problem, Surroundings, SymbolicLink, find};
use stockade_provider::Language;

use crate::home::{Home, found, own_binds, own_links, refusal};

#[test]
fn installation_is_mounted_without_its_neighbours() {
    let home = Home::new();
    let prefix = home.python("pythons/3.11.7", "3.11");
    home.python("pythons/3.12.1", "3.12");
    let interpreter = found(&home.with_path(&[prefix.join("bin")]));
    assert_eq!(interpreter.program, prefix.join("bin/python3"));
    assert_eq!(interpreter.resolved, prefix.join("bin/python3.11"));
    assert_eq!(interpreter.version.as_deref(), Some("3.11"));
    assert_eq!(own_binds(&interpreter), [prefix]);
    assert_eq!(own_links(&interpreter), []);
    assert_eq!(interpreter.origin, Origin::Path);
}

#[test]
fn environment_starts_by_its_own_name_and_is_mounted_with_its_base() {
    let home = Home::new();
    let base = home.python("pythons/3.11.7", "3.11");
    let environment = home.environment("project/.venv", &base.join("bin"));
    let surroundings =
        Surroundings { virtual_env: Some(environment.clone()), ..home.surroundings() };
    let interpreter = found(&surroundings);
    assert_eq!(interpreter.program, environment.join("bin/python3"));
    assert_eq!(interpreter.resolved, base.join("bin/python3.11"));
    assert_eq!(own_binds(&interpreter), [environment, base.clone()].sorted());
    assert_eq!(interpreter.version.as_deref(), Some("3.11.7"));
    assert_eq!(interpreter.origin, Origin::VirtualEnvironment);
}

#[test]
fn order_is_explicit_then_environment_then_conda_then_path() {
    let home = Home::new();
    let base = home.python("pythons/3.11.7", "3.11");
    let explicit = home.python("pythons/explicit", "3.12");
    let environment = home.environment("project/.venv", &base.join("bin"));
    let conda = home.python("conda/envs/mine", "3.10");
    home.directory("conda/envs/mine/conda-meta");
    let mut surroundings = Surroundings {
        explicit_python: Some(explicit.clone()),
        virtual_env: Some(environment.clone()),
        conda_prefix: Some(conda.clone()),
        ..home.with_path(&[base.join("bin")])
    };
    assert_eq!(found(&surroundings).program, explicit.join("bin/python3"));
    surroundings.explicit_python = None;
    assert_eq!(found(&surroundings).program, environment.join("bin/python3"));
    surroundings.virtual_env = None;
    assert_eq!(found(&surroundings).program, conda.join("bin/python3"));
    surroundings.conda_prefix = None;
    assert_eq!(found(&surroundings).program, base.join("bin/python3"));
}

#[test]
fn explicit_path_may_be_relative_to_the_working_directory() {
    let home = Home::new();
    let prefix = home.python("project/tools/python", "3.11");
    let explicit_python = Some("tools/python/bin/python3.11".into());
    let surroundings = Surroundings { explicit_python, ..home.surroundings() };
    assert_eq!(found(&surroundings).program, prefix.join("bin/python3.11"));
}

#[test]
fn environment_with_a_copied_interpreter_is_based_on_its_home() {
    let home = Home::new();
    let base = home.python("pythons/3.11.7", "3.11");
    let environment = home.environment("venv", &base.join("bin"));
    fs::remove_file(environment.join("bin/python")).unwrap();
    home.executable("venv/bin/python");
    let interpreter = found(&home.with_path(&[environment.join("bin")]));
    assert_eq!(interpreter.resolved, environment.join("bin/python"));
    assert_eq!(own_binds(&interpreter), [environment, base].sorted());
}

#[test]
fn nested_environment_reaches_the_installation() {
    let home = Home::new();
    let base = home.python("pythons/3.11.7", "3.11");
    let first = home.environment("first", &base.join("bin"));
    home.link("first/bin/python3.11", "python");
    let second = home.environment("second", &first.join("bin"));
    let interpreter = found(&home.with_path(&[second.join("bin")]));
    assert_eq!(own_binds(&interpreter), [first, base, second].sorted());
}

#[test]
fn environment_based_on_itself_is_refused() {
    let home = Home::new();
    let venv = home.path("venv");
    home.environment("venv", &venv.join("bin"));
    fs::remove_file(venv.join("bin/python")).unwrap();
    home.executable("venv/bin/python");
    home.link("venv/bin/python3.11", "python");
    let problem = refusal(&home.with_path(&[venv.join("bin")]));
    let home = venv.join("bin");
    assert_eq!(problem, Problem::BrokenEnvironment { directory: venv, home });
}

#[test]
fn uv_environment_keeps_the_link_for_the_minor_version() {
    let home = Home::new();
    let store = ".local/share/uv/python";
    let real = home.python(&format!("{store}/cpython-3.11.7-linux-x86_64-gnu"), "3.11");
    let minor = home
        .link(&format!("{store}/cpython-3.11-linux-x86_64-gnu"), "cpython-3.11.7-linux-x86_64-gnu");
    let environment = home.environment("project/.venv", &minor.join("bin"));
    let text =
        format!("home = {}\nuv = 0.8.0\nversion_info = 3.11.7\n", minor.join("bin").display());
    home.file("project/.venv/pyvenv.cfg", &text);
    home.file("project/.venv/CACHEDIR.TAG", "");
    let interpreter = found(&home.with_path(&[environment.join("bin")]));
    assert_eq!(own_binds(&interpreter), [real, environment].sorted());
    let target = "cpython-3.11.7-linux-x86_64-gnu".into();
    assert_eq!(own_links(&interpreter), [SymbolicLink { at: minor, target }]);
}

#[test]
fn link_in_local_bin_leads_to_the_uv_interpreter() {
    let home = Home::new();
    let prefix = home.python(".local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu", "3.12");
    let link = home.link(".local/bin/python3", prefix.join("bin/python3.12"));
    let interpreter = found(&home.with_path(&[link.parent().unwrap()]));
    assert_eq!(interpreter.program, prefix.join("bin/python3.12"));
    assert_eq!(own_binds(&interpreter), [prefix]);
    assert_eq!(own_links(&interpreter), []);
}

#[test]
fn conda_base_is_mounted_without_its_other_environments_and_settings() {
    let home = Home::new();
    let prefix = home.python("miniconda3", "3.11");
    for name in ["conda-meta", "envs/other", "pkgs"] {
        home.directory(&format!("miniconda3/{name}"));
    }
    home.file("miniconda3/.condarc", "channels: [https://user:password@host]");
    let surroundings = Surroundings { conda_prefix: Some(prefix.clone()), ..home.surroundings() };
    let interpreter = found(&surroundings);
    assert_eq!(interpreter.origin, Origin::Conda);
    let parts = ["bin", "conda-meta", "lib"].map(|part| prefix.join(part));
    assert_eq!(own_binds(&interpreter), parts);
}

#[test]
fn environment_with_a_pip_settings_file_is_mounted_without_it() {
    let home = Home::new();
    let base = home.python("pythons/3.11.7", "3.11");
    let environment = home.environment("venv", &base.join("bin"));
    home.link("venv/lib64", "lib");
    home.file("venv/pip.conf", "[global]\nindex-url = https://user:password@host\n");
    let interpreter = found(&home.with_path(&[environment.join("bin")]));
    let parts = ["bin", "lib", "pyvenv.cfg"].map(|part| environment.join(part));
    assert_eq!(own_binds(&interpreter), [vec![base], parts.to_vec()].concat());
    let at = environment.join("lib64");
    assert_eq!(own_links(&interpreter), [SymbolicLink { at, target: "lib".into() }]);
}

#[test]
fn installation_directly_in_a_home_mounts_only_its_own_files() {
    let home = Home::new();
    home.python(".local", "3.11");
    home.file(".local/share/keyrings/login.keyring", "secret");
    let interpreter = found(&home.with_path(&[home.path(".local/bin")]));
    let expected = [home.path(".local/bin/python3.11"), home.path(".local/lib/python3.11")];
    assert_eq!(own_binds(&interpreter), expected);
}

#[test]
fn nvm_node_mounts_one_version() {
    let home = Home::new();
    let node = home.executable(".nvm/versions/node/v20.1.0/bin/node");
    let prefix = home.path(".nvm/versions/node/v20.1.0");
    home.directory(".nvm/versions/node/v20.1.0/lib/node_modules/npm");
    home.file(".nvm/versions/node/v20.1.0/README.md", "");
    let surroundings = home.with_path(&[node.parent().unwrap()]);
    let interpreter = find(Language::JavaScript, &surroundings).unwrap();
    assert_eq!((interpreter.program.clone(), own_binds(&interpreter)), (node, vec![prefix]));
    assert_eq!(interpreter.version.as_deref(), Some("20.1.0"));
}

#[test]
fn node_in_a_project_is_mounted_without_the_project() {
    let home = Home::new();
    let node = home.executable("project/bin/node");
    home.file("project/.env", "SECRET=1");
    let surroundings = home.with_path(&[node.parent().unwrap()]);
    let interpreter = find(Language::JavaScript, &surroundings).unwrap();
    assert_eq!(own_binds(&interpreter), [node]);
}

#[test]
fn bash_is_the_systems() {
    let home = Home::new();
    let planted = home.executable("bin/bash");
    let surroundings = home.with_path(&[planted.parent().unwrap()]);
    let interpreter = find(Language::Bash, &surroundings).unwrap();
    assert_eq!(interpreter.origin, Origin::System);
    assert_eq!(own_binds(&interpreter), Vec::<std::path::PathBuf>::new());
    let usr = Bind { host: "/usr".into(), guest: "/usr".into() };
    assert!(interpreter.binds.contains(&usr));
}

trait Sorted {
    fn sorted(self) -> Self;
}

impl<const N: usize> Sorted for [std::path::PathBuf; N] {
    fn sorted(mut self) -> Self {
        self.sort();
        self
    }
}

//! Libraries that the dynamic loader finds outside the system's directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade_interpreters::{Problem, SymbolicLink};

use crate::home::{Home, found, own_binds, own_links, refusal};

/// Builds `libmine.so.1`, and a program in a Python installation that finds it by this search path.
fn build(home: &Home, library: &Path, search_path: &str, tags: &str) -> PathBuf {
    let prefix = home.python("pythons/3.11.7", "3.11");
    let (shared, program) =
        (home.file("mine.c", "int mine(void) { return 0; }\n"), home.path("main.c"));
    fs::write(&program, "int mine(void);\nint main(void) { return mine(); }\n").unwrap();
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    compile(
        &[&shared, Path::new("-o"), library],
        &["-shared", "-fPIC", "-Wl,-soname,libmine.so.1"],
    );
    let executable = prefix.join("bin/python3.11");
    let run_path = format!("-Wl,-rpath,{search_path},{tags}");
    compile(&[&program, library, Path::new("-o"), &executable], &[&run_path]);
    prefix
}

fn compile(files: &[&Path], options: &[&str]) {
    let output = Command::new("cc").args(files).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const TAGS: [&str; 2] = ["--enable-new-dtags", "--disable-new-dtags"];

#[test]
fn library_elsewhere_is_mounted_without_its_neighbours() {
    for tags in TAGS {
        let home = Home::new();
        let elsewhere = home.path("openssl/lib");
        let prefix =
            build(&home, &elsewhere.join("libmine.so.1"), elsewhere.to_str().unwrap(), tags);
        let interpreter = found(&home.with_path(&[prefix.join("bin")]));
        assert_eq!(own_binds(&interpreter), [elsewhere.join("libmine.so.1"), prefix]);
    }
}

#[test]
fn library_of_the_installation_itself_adds_nothing() {
    for tags in TAGS {
        let home = Home::new();
        let library = home.path("pythons/3.11.7/lib/libmine.so.1");
        let prefix = build(&home, &library, "$ORIGIN/../lib", tags);
        let interpreter = found(&home.with_path(&[prefix.join("bin")]));
        assert_eq!(own_binds(&interpreter), [prefix]);
    }
}

#[test]
fn library_in_a_shared_directory_is_mounted_alone() {
    let home = Home::new();
    let shared = home.path("lib");
    let prefix = build(&home, &shared.join("libmine.so.1.2"), shared.to_str().unwrap(), TAGS[0]);
    let at = home.link("lib/libmine.so.1", "libmine.so.1.2");
    let interpreter = found(&home.with_path(&[prefix.join("bin")]));
    assert_eq!(own_binds(&interpreter), [shared.join("libmine.so.1.2"), prefix]);
    assert_eq!(own_links(&interpreter), [SymbolicLink { at, target: "libmine.so.1.2".into() }]);
}

#[test]
fn program_without_its_library_is_refused() {
    let home = Home::new();
    let library = home.path("gone/libmine.so.1");
    let prefix = build(&home, &library, "/no/such/lib:lib", TAGS[0]);
    let problem = refusal(&home.with_path(&[prefix.join("bin")]));
    let (file, library) = (prefix.join("bin/python3.11"), "libmine.so.1".to_owned());
    assert_eq!(problem, Problem::MissingLibrary { file, library });
}

#[test]
fn extension_module_brings_its_library() {
    let home = Home::new();
    let elsewhere = home.path("openssl/lib");
    let prefix =
        build(&home, &elsewhere.join("libmine.so.1"), elsewhere.to_str().unwrap(), TAGS[0]);
    let module = home.path("pythons/3.11.7/lib/python3.11/lib-dynload/_mine.so");
    fs::create_dir_all(module.parent().unwrap()).unwrap();
    fs::rename(prefix.join("bin/python3.11"), &module).unwrap();
    home.executable("pythons/3.11.7/bin/python3.11");
    let interpreter = found(&home.with_path(&[prefix.join("bin")]));
    assert_eq!(own_binds(&interpreter), [elsewhere.join("libmine.so.1"), prefix]);
}

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn trusted_paths(base: &Path, command: &str, search_path: &str) -> TrustedPaths {
    let text = format!(
        "tools:\n  - {{name: t, description: d, command: {command}, input_schema: {{type: object}}}}\n"
    );
    let file = ToolsFile::parse("t", text.as_bytes(), base).expect("a tools file");
    file.trusted_paths(OsStr::new(search_path))
}

#[test]
fn every_name_on_a_path_is_reported_even_if_missing() {
    let scratch = tempfile::tempdir().expect("a directory");
    let top = scratch.path().canonicalize().expect("its real path");
    let (conf, proj) = (top.join("conf"), top.join("proj"));
    fs::create_dir_all(proj.join("bin")).expect("made");
    fs::create_dir(&conf).expect("made");
    symlink("/bin/sh", proj.join("bin/python")).expect("a link");
    symlink("../proj/bin/python", conf.join("py")).expect("a link");
    symlink(&proj, top.join("other")).expect("a link");
    symlink("../proj/later", conf.join("later")).expect("a link");
    fs::write(conf.join("script"), format!("#!{}/bin/python -x\n", proj.display()))
        .expect("written");
    for command in [
        "[../proj/bin/python]",
        "[./py]",
        "[../other/bin/python]",
        "[./later]",
        "[./script]",
        "[sh, ../proj/later.sh]",
        "[sh, --require=../proj/x.js]",
        "[sh, -c, x, ../proj]",
    ] {
        let names = trusted_paths(&conf, command, "/usr/bin:/bin").names;
        assert!(names.iter().any(|name| name.starts_with(&proj)), "{command}: {names:?}");
    }
    let ahead = format!("{}:/usr/bin:/bin", proj.join("nowhere").display());
    for search_path in [&ahead, "../proj/bin:/usr/bin:/bin"] {
        let names = trusted_paths(&conf, "[sh]", search_path).names;
        assert!(names.iter().any(|name| name.starts_with(&proj)), "{search_path}: {names:?}");
    }
    let after = format!("/usr/bin:/bin:{}", proj.display());
    let names = trusted_paths(&conf, "[sh, -c, exit]", &after).names;
    assert!(!names.iter().any(|name| name.starts_with(&proj)), "{names:?}");
}

#[test]
fn directory_arguments_and_hard_linked_files_are_reported() {
    let scratch = tempfile::tempdir().expect("a directory");
    let top = scratch.path().canonicalize().expect("its real path");
    fs::create_dir_all(top.join("conf")).expect("made");
    fs::create_dir_all(top.join("srv/node_modules")).expect("made");
    fs::write(top.join("conf/tool"), "").expect("written");
    fs::hard_link(top.join("conf/tool"), top.join("same")).expect("a second name");
    let found = trusted_paths(&top.join("conf"), "[./tool, ../srv]", "/usr/bin");
    assert!(found.trees.contains(&top.join("srv")), "{found:?}");
    assert!(found.linked.contains(&top.join("conf/tool")), "{found:?}");
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Whether any name below a folder is in the result.
fn is_below(found: &TrustedPaths, folder: &Path) -> bool {
    found.names.iter().any(|name| name.starts_with(folder))
}

#[test]
fn program_that_env_finds_for_a_script_is_reported() {
    let scratch = tempfile::tempdir().expect("a directory");
    let top = scratch.path().canonicalize().expect("its real path");
    let (conf, proj) = (top.join("conf"), top.join("proj"));
    fs::create_dir_all(proj.join("bin")).expect("made");
    fs::create_dir(&conf).expect("made");
    executable(&proj.join("bin/snake"), "");
    let place = proj.join("bin").display().to_string();
    let search_path = format!("/usr/bin:{place}");
    for line in [
        "/usr/bin/env snake",
        "/usr/bin/env  -S snake -x",
        "/usr/bin/env -Ssnake -x",
        "/usr/bin/env -iS snake",
        "/usr/bin/env --split-string=snake -x",
        "/usr/bin/env -S A=b snake",
        "/usr/bin/env -S -u HOME snake",
        "/usr/bin/env -S --chdir / snake",
    ] {
        fs::write(conf.join("script"), format!("#!{line}\n")).expect("written");
        let found = trusted_paths(&conf, "[./script]", &search_path);
        assert!(found.names.contains(&proj.join("bin/snake")), "{line}: {found:?}");
        assert!(!is_below(&trusted_paths(&conf, "[./script]", "/usr/bin"), &proj), "{line}");
    }
    // An earlier directory could get one; the search ends where it is found.
    fs::write(conf.join("script"), "#!/usr/bin/env sh\n").expect("written");
    assert!(is_below(
        &trusted_paths(&conf, "[./script]", &format!("{place}:/usr/bin:/bin")),
        &proj
    ));
    assert!(!is_below(
        &trusted_paths(&conf, "[./script]", &format!("/usr/bin:/bin:{place}")),
        &proj
    ));
    // A file that cannot be executed does not end the search.
    fs::write(conf.join("sh"), "").expect("written");
    let passed = format!("{}:{place}:/usr/bin:/bin", conf.display());
    assert!(is_below(&trusted_paths(&conf, "[./script]", &passed), &proj));
    // With its own search path, and with `env` as the command itself.
    fs::write(conf.join("script"), format!("#!/usr/bin/env -S PATH={place} snake\n"))
        .expect("written");
    assert!(is_below(&trusted_paths(&conf, "[./script]", "/usr/bin"), &proj));
    assert!(is_below(&trusted_paths(&conf, "[env, snake, x]", &search_path), &proj));
}

#[test]
fn interpreter_of_an_interpreter_script_is_reported() {
    let scratch = tempfile::tempdir().expect("a directory");
    let top = scratch.path().canonicalize().expect("its real path");
    let (conf, proj) = (top.join("conf"), top.join("proj"));
    fs::create_dir(&proj).expect("made");
    fs::create_dir_all(conf.join("shims")).expect("made");
    fs::write(conf.join("script"), "#!/usr/bin/env snake\n").expect("written");
    executable(&conf.join("shims/snake"), &format!("#!{}/shell\n", proj.display()));
    fs::write(conf.join("direct"), format!("#!{}/shims/snake\n", conf.display())).expect("written");
    let search_path = format!("{}:/usr/bin", conf.join("shims").display());
    for command in ["[./script]", "[./direct]", "[snake]"] {
        assert!(is_below(&trusted_paths(&conf, command, &search_path), &proj), "{command}");
    }
    // Scripts that name each other do not loop forever.
    executable(&conf.join("shims/snake"), "#!/usr/bin/env snake\n");
    trusted_paths(&conf, "[./script]", &search_path);
}

#[test]
fn header_file_and_every_link_to_it_are_reported() {
    let scratch = tempfile::tempdir().expect("a directory");
    let top = scratch.path().canonicalize().expect("its real path");
    let (conf, proj) = (top.join("conf"), top.join("proj"));
    fs::create_dir(&proj).expect("made");
    fs::create_dir(&conf).expect("made");
    symlink("../proj/key", conf.join("link")).expect("a link");
    fs::write(conf.join("key"), "k").expect("written");
    fs::hard_link(conf.join("key"), proj.join("same")).expect("a second name");
    let headed = |source: &str| {
        let text = format!(
            "tools:\n  - name: t\n    http: {{url: 'http://localhost/', headers_from: {{X-Key: '{source}'}}}}\n    input_schema: {{type: object}}\n"
        );
        let file = ToolsFile::parse("t", text.as_bytes(), &conf).expect("a tools file");
        file.trusted_paths(OsStr::new("/usr/bin"))
    };
    for source in ["file:../proj/key", "file:./link"] {
        assert!(headed(source).names.contains(&proj.join("key")), "{source}");
    }
    assert!(headed("file:key").linked.contains(&conf.join("key")));
    assert_eq!(headed("env:KEY"), TrustedPaths::default());
}

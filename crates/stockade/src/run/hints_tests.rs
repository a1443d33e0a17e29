use super::*;

/// Facts for hints on a host that has every file.
pub(super) fn asked(policy: &str) -> Asked {
    Asked {
        policy: Arc::new(Policy::parse_str("p", policy, Path::new("/srv")).unwrap()),
        advice: Advice::Flags,
        host_file: Some(|_| true),
        here: PathBuf::from("/srv/me"),
        script: None,
        language: None,
        argv: Vec::new(),
        search_path: None,
        home: None,
        working_directory: None,
        named: Vec::new(),
    }
}

/// Facts for a caller who wrote these paths on the command line.
fn naming(policy: &str, paths: &[&str]) -> Asked {
    let named = paths.iter().map(|path| (*path).to_owned()).collect();
    Asked { named, ..asked(policy) }
}

fn of_script(script: &str, language: Language) -> Asked {
    Asked { script: Some(script.into()), language: Some(language), ..asked("{}") }
}

fn failed(text: &str, asked: &Asked) -> Vec<String> {
    hints(&Outcome::Exited { code: 1 }, text.as_bytes(), asked)
}

fn ask(text: &str, policy: &str) -> Vec<String> {
    failed(text, &asked(policy))
}

const MISSING_FILE: &str =
    "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/data.csv'\n";

#[test]
fn hint_for_a_missing_module_names_the_python_flag() {
    let found = ask("ModuleNotFoundError: No module named 'numpy'\n", "{}");
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`numpy`") && found[0].contains("--python PATH"), "{found:?}");
    let found = ask("Error: Cannot find module 'left-pad'\n", "{}");
    assert!(found[0].contains("`left-pad`") && found[0].contains("--workspace"), "{found:?}");
}

#[test]
fn hint_for_a_hidden_host_file_names_the_mount_flag() {
    let expected = "/home/me/data.csv exists on the host and is not visible inside; \
                    --mount /home/me/data.csv:/home/me/data.csv shows it read-only";
    let asked = naming("{}", &["/home/me/data.csv"]);
    assert_eq!(failed(MISSING_FILE, &asked), [expected]);
    let shell = "cat: /home/me/data.csv: No such file or directory\n";
    assert_eq!(failed(shell, &asked), [expected]);
    let node = "Error: ENOENT: no such file or directory, open '/home/me/data.csv'\n";
    assert_eq!(failed(node, &asked), [expected]);
    assert_eq!(failed(node, &naming("{}", &["--file=/home/me/data.csv"])), [expected]);
}

#[test]
fn path_that_only_the_program_named_gives_the_same_hints_whether_it_exists_or_not() {
    let empty = |asked: Asked| Asked { host_file: Some(|_| false), ..asked };
    for line in [
        MISSING_FILE,
        NO_DATA,
        "cat: secret/plan.txt: No such file or directory\n",
        "PermissionError: [Errno 13] Permission denied: '/opt/data'\n",
        "ModuleNotFoundError: No module named 'secret'\n",
        "Error: Cannot find module './secret'\n",
        "Error: Cannot find module '/workspace/secret'\n",
        "/run/code/a.sh: line 1: /run/code/secret.sh: No such file or directory\n",
    ] {
        for advice in [Advice::Flags, Advice::Clauses] {
            let scripts = [
                of_script("a.py", Language::Python),
                of_script("sub/a.js", Language::JavaScript),
                naming("{}", &["/home/me", "data.cs", "sh", "-c", "cat /home/me/data.csv"]),
            ];
            for script in scripts {
                let asked = || Asked { advice, named: script.named.clone(), ..again(&script) };
                let (there, gone) = (failed(line, &asked()), failed(line, &empty(asked())));
                assert_eq!(there, gone, "{line}");
                let names = ["/home/me/data.csv", "data.csv", "plan.txt", "/opt/data"];
                assert!(!names.iter().any(|name| there.concat().contains(name)), "{there:?}");
            }
        }
    }
}

/// A copy of the same facts.
fn again(asked: &Asked) -> Asked {
    Asked { script: asked.script.clone(), language: asked.language, ..naming("{}", &[]) }
}

#[test]
fn hint_names_the_policy_clause_if_flags_do_not_help() {
    let named = naming("{}", &["/home/me/data.csv"]);
    let found = failed(MISSING_FILE, &Asked { advice: Advice::Clauses, ..named });
    assert!(found[0].contains("filesystem.read") && !found[0].contains("--mount"), "{found:?}");
}

#[test]
fn hint_for_a_read_only_file_names_the_writable_mount() {
    let text = "PermissionError: [Errno 30] Read-only file system: '/data/out.txt'\n";
    let found = failed(text, &naming("filesystem: {read: [/data]}", &["/data/out.txt"]));
    assert_eq!(
        found,
        ["/data/out.txt exists on the host and is read-only inside; \
          --mount /data/out.txt:/data/out.txt:rw makes it writable"]
    );
}

#[test]
fn no_hint_for_keys_system_files_scratch_space_or_missing_files() {
    for path in ["/etc/shadow", "/home/me/.ssh/id_rsa", "/tmp/x", "/proc/1/mem", "/", "//x"] {
        let text = format!("No such file or directory: '{path}'");
        assert_eq!(failed(&text, &naming("{}", &[path])), [""; 0], "{path}");
    }
    let named = || naming("{}", &["/home/me/data.csv"]);
    assert_eq!(failed(MISSING_FILE, &Asked { host_file: Some(|_| false), ..named() }), [""; 0]);
    assert_eq!(failed(MISSING_FILE, &Asked { host_file: None, ..named() }), [""; 0]);
    let bytes = MISSING_FILE.as_bytes();
    assert_eq!(hints(&Outcome::Exited { code: 0 }, bytes, &named()), [""; 0]);
}

#[test]
fn traceback_lines_and_lines_without_an_error_give_no_hint() {
    let text = "  File \"/home/me/venv/a.py\", line 1, No such file or directory\n\
                see /home/me/readme.txt\n";
    let asked = naming("{}", &["/home/me/venv/a.py", "/home/me/readme.txt"]);
    assert_eq!(failed(text, &asked), [""; 0]);
}

#[test]
fn hostile_text_gives_few_hints_without_control_characters() {
    let lines: String =
        (0..50).map(|n| format!("No such file or directory: '/home/{n}/x'\n")).collect();
    let paths: Vec<String> = (0..50).map(|n| format!("/home/{n}/x")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(failed(&lines, &naming("{}", &paths)).len(), MAX_HINTS);
    let foul = "No such file or directory: '/home/me/\u{1b}[2J'\nNo module named '\u{1b}'\n";
    assert_eq!(failed(foul, &naming("{}", &["/home/me/\u{1b}[2J"])), [""; 0]);
}

const NO_DATA: &str = "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'\n";

#[test]
fn hint_for_a_file_in_the_working_directory_names_the_workspace_flag() {
    let expected = "data.csv is here on the host and not inside; --workspace . shows that \
                    directory, at /workspace";
    for line in [
        NO_DATA,
        "cat: data.csv: No such file or directory\n",
        "/run/code/a.sh: line 2: data.csv: No such file or directory\n",
        "Error: ENOENT: no such file or directory, open 'data.csv'\n",
        "sh: 1: cannot open data.csv: No such file\n",
        "python3: can't open file '/workspace/data.csv': [Errno 2] No such file or directory\n",
        "Error: Cannot find module '/workspace/data.csv'\n",
    ] {
        assert_eq!(failed(line, &naming("{}", &["data.csv"])), [expected], "{line}");
        let unnamed = "programs start in /workspace, which is empty; --workspace . shows this \
                       directory there";
        assert_eq!(ask(line, "{}")[0], unnamed, "{line}");
    }
    for named in [&[][..], &["data.csv"]] {
        let asked = Asked { advice: Advice::Clauses, ..naming("{}", named) };
        let found = failed(NO_DATA, &asked);
        assert!(found[0].contains("filesystem.workspace of the policy"), "{found:?}");
    }
    // A home directory cannot be the workspace; a file in it can be shown.
    let home = Asked { here: "/home/me".into(), ..naming("{}", &["data.csv"]) };
    let mount = "--mount /home/me/data.csv:/workspace/data.csv shows it read-only";
    assert!(failed(NO_DATA, &home)[0].ends_with(mount), "{:?}", failed(NO_DATA, &home));
}

#[test]
fn hint_for_a_file_next_to_the_script_names_its_directory() {
    let beside = |path: &Path| path.starts_with("/srv/me/sub");
    let script = || of_script("sub/a.py", Language::Python);
    let named = Asked { host_file: Some(beside), named: vec!["data.csv".to_owned()], ..script() };
    let expected = "data.csv is next to the script on the host and not inside; --workspace sub \
                    shows that directory, at /workspace";
    assert_eq!(failed(NO_DATA, &named), [expected]);
    let expected = "programs start in /workspace, which is empty; --workspace sub shows the \
                    directory of the script there";
    assert_eq!(failed(NO_DATA, &script()), [expected]);
}

#[test]
fn hint_for_a_module_next_to_the_script_has_the_whole_command() {
    let way = |script: &str, language, line: &str| {
        let found = failed(line, &of_script(script, language));
        let (_, way) = found[0].split_once("; ").unwrap();
        way.to_owned()
    };
    let python = "ModuleNotFoundError: No module named 'helper.deep'\n";
    let shows =
        |command: &str| format!("`stockade run --workspace {command}` shows its directory too");
    assert_eq!(way("a.py", Language::Python, python), shows(". -- python3 a.py"));
    assert_eq!(way("sub/a.py", Language::Python, python), shows(". -- python3 sub/a.py"));
    assert_eq!(way("/srv/x y/a.py", Language::Python, python), shows("'/srv/x y' -- python3 a.py"));
    let node = "Error: Cannot find module './helper'\n";
    assert_eq!(way("a.js", Language::JavaScript, node), shows(". -- node a.js"));
    let bash = "/run/code/a.sh: line 1: /run/code/more.sh: No such file or directory\n";
    assert_eq!(way("a.sh", Language::Bash, bash), shows(". -- bash a.sh"));
}

#[test]
fn no_hint_for_invalid_relative_paths_or_paths_that_go_up() {
    for line in [
        "No such file or directory: '../secret'\n",
        "No such file or directory: '..'\n",
        "No such file or directory: ''\n",
        "No such file or directory: 'a\u{1b}[2J'\n",
        "could not read 'data.csv'\n",
    ] {
        assert_eq!(ask(line, "{}"), [""; 0], "{line:?}");
    }
    let shown = "filesystem: {workspace: {host: /srv/me, mode: read}}";
    assert_eq!(ask(NO_DATA, shown), [""; 0]);
}

fn unstarted(errno: i32, argv: &[&str]) -> Vec<String> {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let outcome = Outcome::NotStarted { errno, program: String::new(), refused_call: None };
    hints(&outcome, b"", &Asked { argv, ..asked("{}") })
}

#[test]
fn hint_for_a_command_that_is_not_inside_shows_how_to_run_it() {
    let script = unstarted(2, &["a.py", "x y"]);
    assert!(script[0].contains("`stockade run a.py 'x y'` runs a script"), "{script:?}");
    let relative = unstarted(2, &["./prog"]);
    assert!(relative[0].contains("./prog is here on the host"), "{relative:?}");
    assert!(relative[0].contains("--workspace . shows"), "{relative:?}");
    let absolute = unstarted(2, &["/opt/tool"]);
    assert!(absolute[0].contains("--mount /opt/tool:/opt/tool shows"), "{absolute:?}");
    assert_eq!(unstarted(2, &["prog"]), [""; 0]);
    assert_eq!(unstarted(13, &["./prog"]), [""; 0]);
}

#[test]
fn hint_for_code_that_does_not_fit_names_the_disk_limit() {
    let outcome = Outcome::NotStarted { errno: 28, program: String::new(), refused_call: None };
    let code = of_script("a.py", Language::Python);
    let expected = "the code does not fit into the 256 MiB that files may take; raise --disk, and \
                    --memory where it is less";
    assert_eq!(hints(&outcome, b"", &code), [expected]);
    let clauses = Asked { advice: Advice::Clauses, ..code };
    assert!(hints(&outcome, b"", &clauses)[0].contains("limits.max_disk_mb"));
}

#[test]
fn hints_quote_words_for_a_shell() {
    for (word, quoted) in [("a-b.c", "a-b.c"), ("", "''"), ("a b", "'a b'"), ("a'b", r"'a'\''b'")] {
        assert_eq!(shell_word(word), quoted);
    }
}

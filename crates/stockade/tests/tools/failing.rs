//! Commands that hang, crash and flood, and the environment of a command.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::shop::Shop;
use crate::support::{finish, walls_can_be_built};

#[test]
fn hanging_crashing_and_flooding_commands_fail_only_their_own_call() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(
        "tool_allowlist: [word_count, do]\nlimits: {max_tool_seconds: 15}\ndefaults: {max_tool_calls: 1000}\n",
    );
    // All concurrently on one connection, with valid calls between them.
    let code = r#"
asked = ['hang', 'crash', 'flood', 'flood errors', 'fail']
lines = [request(json.dumps({'what': what, 'value': 'as I was told'}).encode(), n) for n, what in enumerate(asked)]
lines += [request(b'{"what":"return","value":%d}' % n, n) for n in range(10, 20)]
answers = {answer['id']: answer for answer in exchange(*lines, most=len(lines))}
for n, what in enumerate(asked):
    error = answers[n]['error']
    print(what, '=', error['code'], '=', error['message'])
print(all(answers[n] == {'id': n, 'result': n} for n in range(10, 20)))
goes_on()
"#;
    let run = shop.raw(code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert!(lines[0].starts_with("hang = timed_out = "), "{}", lines[0]);
    assert_eq!(lines[1], "crash = broken = the tool was ended by signal 11");
    assert!(lines[2].starts_with("flood = too_large = "), "{}", lines[2]);
    assert_eq!(lines[3], "flood errors = failed = that was much");
    assert_eq!(lines[4], "fail = failed = as I was told");
    assert_eq!(lines[5], "True");
    crate::support::wait_until_gone(&crate::support::numbers(&shop.path("pids")));
}

#[test]
fn command_that_is_not_installed_is_reported_before_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let tools = include_str!("programs/tools.yaml");
    let of = |program: &str| {
        let command = format!("[{program}]");
        Shop::with(&tools.replacen("[python3, ./count.py]", &command, 1))
    };
    let install = "install its program, or correct `command` in the tools file";
    let run_it = "make it executable with chmod +x, or name what runs it first, such as python3";
    let cases = [
        ("./absent", "`{}/absent`, which does not exist", install),
        ("absent-program", "`absent-program`, which is in no directory of PATH", install),
        ("./count.py", "`{}/count.py`, which cannot be executed", run_it),
    ];
    for (program, message, remedy) in cases {
        let shop = of(program);
        let run = shop.run(&["--", "echo", "it ran"]);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
        let message = message.replace("{}", shop.path("").to_str().unwrap().trim_end_matches('/'));
        let expected = format!("error: the tool `word_count` runs {message}\n  = {remedy}\n");
        assert_eq!(run.stderr, expected);
        // A tool that the policy does not list need not be installed.
        let shop = of(program).policy("tool_allowlist: [do]\n");
        assert_eq!(shop.python("print(do('return', 'good'))").text(), "good\n");
    }
}

#[test]
fn command_removed_before_its_call_fails_only_that_call() {
    if !walls_can_be_built() {
        return;
    }
    let tools =
        include_str!("programs/tools.yaml").replacen("[python3, ./count.py]", "[./gone]", 1);
    let shop = Shop::with(&tools);
    let gone = shop.file("gone", "#!/bin/sh\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(gone, executable).expect("it is ours");
    let run = shop.python(
        "
from stockade_tools import ToolError
do('remove', 'gone')
try:
    word_count('a')
except ToolError as error:
    print(error.code, error)
print(do('return', 'good'))
",
    );
    assert_eq!(
        run.text(),
        "broken the tool cannot be started: No such file or directory (os error 2)\ngood\n"
    );
}

#[test]
fn command_gets_only_the_configured_variables() {
    if !walls_can_be_built() {
        return;
    }
    let plain = include_str!("programs/tools.yaml");
    let given = format!("{plain}    environment: [API_KEY]\n");
    let names = |tools: &str| -> Vec<String> {
        let shop = Shop::with(tools);
        let code = "import json; print(json.dumps(do('environment')))";
        let mut command = shop.command(&["--", "python3", "-c", code]);
        command.env("API_KEY", "hunter2").env("OTHER_SECRET", "hunter3");
        let run = finish(&mut command);
        let names: Value = run.json();
        serde_json::from_value(names).unwrap()
    };
    let (without, with) = (names(plain), names(&given));
    assert!(without.contains(&"PATH".to_owned()), "{without:?}");
    assert!(!without.iter().any(|name| name == "API_KEY" || name == "OTHER_SECRET"), "{without:?}");
    assert!(with.contains(&"API_KEY".to_owned()), "{with:?}");
    assert!(!with.contains(&"OTHER_SECRET".to_owned()), "{with:?}");
    // The program inside gets none of these variables.
    let shop = Shop::with(&given);
    let mut command = shop.command(&["--", "env"]);
    let run = finish(command.env("API_KEY", "hunter2"));
    assert!(!run.text().contains("hunter2"), "{run:?}");
}

#[test]
fn command_does_not_inherit_descriptors_of_stockades_caller() {
    if !walls_can_be_built() {
        return;
    }
    let open = |started: &Command| {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 9</dev/null; exec \"$0\" \"$@\""]);
        command.arg(started.get_program()).args(started.get_args());
        if let Some(folder) = started.get_current_dir() {
            command.current_dir(folder);
        }
        finish(&mut command)
    };
    let mut list = Command::new("ls");
    let plain = open(list.arg("/proc/self/fd"));
    assert!(plain.text().lines().any(|line| line == "9"), "nothing is passed on: {plain:?}");
    let shop = Shop::new();
    let code = "import json; print(json.dumps(do('descriptors')))";
    let run = open(&shop.command(&["--", "python3", "-c", code]));
    // Descriptor 3 is the directory that the tool lists.
    assert_eq!(run.text(), "[0, 1, 2, 3]\n");
}

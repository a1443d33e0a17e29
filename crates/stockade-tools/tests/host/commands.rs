//! Tools that are programs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::{Workshop, World, code, gone, message, numbers, result};

const MANY: &str = "defaults: {max_tool_calls: 1000}\n";

#[tokio::test]
async fn program_reads_json_and_writes_json() {
    let shop = Workshop::new();
    shop.write("count.py", "import json,sys\nprint(len(json.load(sys.stdin)['text'].split()))\n");
    let yaml = "tools:\n  - name: word_count\n    description: Counts.\n    command: [python3, \
                ./count.py]\n    input_schema: {type: object, properties: {text: {type: string}}, \
                required: [text]}\n    output_schema: {type: integer}\n";
    let world = World::new(shop.tools(yaml).await, "");
    assert_eq!(world.call("word_count", json!({"text": "one two\nthree"})).await, result(3));
    let wrong = world.call("word_count", json!({"text": 3})).await;
    assert_eq!(code(&wrong), "invalid_arguments");
}

#[tokio::test]
async fn failing_program_reports_its_error_and_a_crashed_one_is_broken() {
    let shop = Workshop::new();
    let code_text = "import json,sys,os,signal\nwhat = json.load(sys.stdin).get('what')\n\
        if what == 'raise': raise ValueError('no such city')\n\
        if what == 'quiet': sys.exit(4)\n\
        if what == 'crash': os.kill(os.getpid(), signal.SIGSEGV)\n\
        if what == 'nan': print('NaN')\n\
        if what == 'text': print('hello')\n\
        if what == 'twice': print('{\"a\":1,\"a\":2}')\n\
        if what == 'two': print('1\\n2')\n\
        if what == 'null': print('null')\n";
    let world = World::new(shop.python("x", code_text, "").await, MANY);
    let answers = [
        ("raise", "failed", "ValueError: no such city"),
        ("quiet", "failed", "the tool ended with code 4 and gave no reason"),
        ("crash", "broken", "the tool was ended by signal 11"),
        ("nan", "invalid_result", "the tool's result is not JSON"),
        ("text", "invalid_result", "the tool's result is not JSON"),
        ("twice", "invalid_result", "the tool's result is not JSON: the key `a` occurs twice"),
        ("two", "invalid_result", "the tool's result is not JSON: trailing bytes follow the value"),
        ("nothing", "invalid_result", "the tool ended without a result"),
    ];
    for (what, expected, text) in answers {
        let answer = world.call("x", json!({"what": what})).await;
        assert_eq!(code(&answer), expected, "{what}: {answer}");
        assert!(message(&answer).starts_with(text), "{what}: {answer}");
    }
    assert_eq!(world.call("x", json!({"what": "null"})).await, json!({"result": null}));
}

#[tokio::test]
async fn deleted_program_is_broken_and_its_path_stays_hidden() {
    let shop = Workshop::new();
    let yaml = "tools:\n  - name: x\n    command: [./secret]\n    input_schema: {type: object}\n";
    let program = shop.executable("secret");
    let world = World::new(shop.tools(yaml).await, "");
    std::fs::remove_file(program).unwrap();
    let answer = world.call("x", json!({})).await;
    assert_eq!(code(&answer), "broken");
    assert!(message(&answer).starts_with("the tool cannot be started: No such file"), "{answer}");
    assert!(!message(&answer).contains("secret"), "{answer}");
}

#[tokio::test]
async fn missing_program_is_an_error_before_the_run() {
    let mut shop = Workshop::new();
    shop.write("text", "echo 1\n");
    shop.executable("here");
    std::fs::create_dir(shop.path().join("folder")).unwrap();
    let yaml = |program: &str| {
        format!(
            "tools:\n  - name: x\n    command: [{program}]\n    input_schema: {{type: object}}\n"
        )
    };
    let cases = [
        ("./absent", "`{}/absent`, which does not exist"),
        ("folder/absent", "`{}/folder/absent`, which does not exist"),
        ("/nowhere/absent", "`/nowhere/absent`, which does not exist"),
        ("absent-program", "`absent-program`, which is in no directory of PATH"),
        // A bare name is not looked up next to the file.
        ("here", "`here`, which is in no directory of PATH"),
        ("./text", "`{}/text`, which cannot be executed"),
        ("./folder", "`{}/folder`, which cannot be executed"),
    ];
    for (program, expected) in cases {
        let expected = expected.replace("{}", shop.path().to_str().unwrap());
        assert_eq!(shop.refusal(&yaml(program)).await, format!("the tool `x` runs {expected}"));
    }
    for program in ["./here", "sh", "/bin/sh"] {
        shop.tools(&yaml(program)).await;
    }
    // Relative directories of PATH start at the directory of the file, where the program starts.
    shop.around.environment.insert("PATH".into(), "/nowhere:.".into());
    shop.tools(&yaml("here")).await;
    let text = shop.refusal(&yaml("text")).await;
    assert_eq!(text, "the tool `x` runs `text`, which cannot be executed");
    let world = World::new(shop.tools(&yaml("here")).await, "");
    assert_eq!(world.call("x", json!({})).await, result(1));
}

#[tokio::test]
async fn excess_output_on_stdout_and_stderr_is_bounded() {
    let shop = Workshop::new();
    let code_text = "import json,sys\nwhat = json.load(sys.stdin).get('what')\n\
        while what == 'out': sys.stdout.write('x' * 65536)\n\
        for _ in range(2000): sys.stderr.write('y' * 65535 + '\\n')\n\
        sys.stderr.write('the end\\n')\nsys.exit(1)\n";
    let world = World::new(shop.python("x", code_text, "").await, MANY);
    let answer = world.call("x", json!({"what": "out"})).await;
    assert_eq!(code(&answer), "too_large");
    let answer = world.call("x", json!({"what": "errors"})).await;
    assert_eq!((code(&answer), message(&answer)), ("failed".into(), "the end".into()));
}

#[tokio::test]
async fn hanging_program_is_killed_with_its_children() {
    let shop = Workshop::new();
    let code_text = "import os,subprocess,time\n\
        child = subprocess.Popen(['sleep', '1000'])\n\
        open('pids', 'w').write(f'{os.getpid()} {child.pid}\\n')\n\
        time.sleep(1000)\n";
    let world = World::new(shop.python("x", code_text, "    timeout_seconds: 2\n").await, MANY);
    let started = Instant::now();
    let answer = world.call("x", json!({})).await;
    assert_eq!(code(&answer), "timed_out");
    assert!(message(&answer).contains("timeout_seconds of the tool"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(20));
    for process in numbers(&shop.path().join("pids")).await {
        gone(process).await;
    }
}

#[tokio::test]
async fn leftover_children_are_killed_and_do_not_delay_the_answer() {
    let shop = Workshop::new();
    let code_text =
        "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nprint(child.pid)\n";
    let world = World::new(shop.python("x", code_text, "").await, MANY);
    let answer = world.call("x", json!({})).await;
    gone(answer["result"].as_i64().unwrap()).await;
}

#[tokio::test]
async fn process_that_left_the_group_does_not_delay_the_answer() {
    let shop = Workshop::new();
    // The child keeps all three pipes open for as long as the whole test runs.
    let code_text = "import json,subprocess,sys\nwhat = json.load(sys.stdin)['what']\n\
        child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n\
        with open('pids', 'a') as file: print(child.pid, file=file)\n\
        if what == 'fail': sys.exit('as asked')\n\
        print(json.dumps('x' * 60000))\n";
    let world = World::new(shop.python("x", code_text, "").await, MANY);
    let started = Instant::now();
    let answers = [
        world.call("x", json!({"what": "answer"})).await,
        world.call("x", json!({"what": "fail"})).await,
    ];
    let took = started.elapsed();
    let children = numbers(&shop.path().join("pids")).await;
    assert_eq!(children.len(), 2);
    for child in children {
        // Such a process outlives its tool, but must not outlive this test.
        let child = i32::try_from(child).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL)
            .expect("it held the pipes all the time");
    }
    assert_eq!(answers[0], result("x".repeat(60_000)));
    assert_eq!((code(&answers[1]), message(&answers[1])), ("failed".into(), "as asked".into()));
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test]
async fn program_gets_the_ordinary_variables_and_the_named_ones() {
    let mut shop = Workshop::new();
    for (name, value) in
        [("API_KEY", "k"), ("OTHER_SECRET", "s"), ("TZ", "UTC"), ("LD_PRELOAD", "")]
    {
        shop.around.environment.insert(name.into(), value.into());
    }
    let code_text = "import json,os\nprint(json.dumps(dict(os.environ, cwd=os.getcwd())))\n";
    let world = World::new(shop.python("x", code_text, "    environment: [API_KEY]\n").await, "");
    let answer = world.call("x", json!({})).await;
    let variables = answer["result"].as_object().unwrap();
    assert_eq!((&variables["API_KEY"], &variables["TZ"]), (&json!("k"), &json!("UTC")));
    assert!(variables.contains_key("PATH"));
    let known = [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "TMPDIR",
        "API_KEY",
        "cwd",
        "LC_CTYPE",
        // Shims and interpreters set these themselves.
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "__CF_USER_TEXT_ENCODING",
    ];
    for name in variables.keys().filter(|name| !name.contains("PYENV")) {
        assert!(known.contains(&name.as_str()), "{name}");
    }
    let here = std::fs::canonicalize(shop.path()).unwrap();
    assert_eq!(variables["cwd"], here.to_str().unwrap());
    let yaml = "tools:\n  - name: x\n    command: [x]\n    environment: [NOT_SET_HERE]\n    input_schema: {type: object}\n";
    let message = shop.refusal(yaml).await;
    assert!(
        message.contains("`x` needs the variable `NOT_SET_HERE`, which is not set"),
        "{message}"
    );
}

#[tokio::test]
async fn no_shell_interprets_the_command_or_the_arguments() {
    let shop = Workshop::new();
    shop.write("show.py", "import json,sys\nprint(json.dumps(sys.argv[1:]))\n");
    let yaml = "tools:\n  - name: x\n    command: [python3, ./show.py, '$(id)', '; id', '*', 'a b']\n    input_schema: {type: object}\n";
    let world = World::new(shop.tools(yaml).await, "");
    let answer = world.call("x", json!({"y": "$(touch owned); `touch owned`"})).await;
    assert_eq!(answer, result(json!(["$(id)", "; id", "*", "a b"])));
    assert!(!shop.path().join("owned").exists());
}

#[tokio::test]
async fn program_that_ignores_its_input_still_answers() {
    let shop = Workshop::new();
    let world = World::new(shop.python("x", "print(1)\n", "").await, "");
    assert_eq!(world.call("x", json!({"large": "x".repeat(900_000)})).await, result(1));
}

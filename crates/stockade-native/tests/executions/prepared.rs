//! Code in an interpreter that was started before the code arrived.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use stockade_native::{HostProcess, NativeProvider, Surroundings};
use stockade_provider::{
    EntryProgram, Execution, Language, ProcessEnd, Program, Provider, Sandbox, SandboxRequest,
    chain,
};
use stockade_testing::{is_root, not_run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{finished, request, runtime, shell, walls_can_be_built};

const LIMIT: Duration = Duration::from_secs(30);

/// Whether interpreters are prepared: where each execution has a cgroup leaf, as root's have.
fn is_prepared_here() -> bool {
    if walls_can_be_built() && !is_root() {
        not_run("without a cgroup no interpreter is prepared");
        return false;
    }
    walls_can_be_built()
}

async fn sandbox() -> Box<dyn Sandbox> {
    let entry = EntryProgram::Interpreter(Language::Python);
    let request = SandboxRequest { entry, ..request() };
    let user = rustix::process::getuid().as_raw();
    let surroundings =
        Surroundings::from_variables(|name| env::var_os(name), env::temp_dir(), user);
    let provider = NativeProvider::new(HostProcess::Continues, surroundings);
    provider.create(&request).await.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Output, errors and end of a program.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    stdout: String,
    stderr: String,
    end: ProcessEnd,
}

/// One sandbox, and the number of the next code in it.
struct Codes {
    sandbox: Box<dyn Sandbox>,
    name: String,
    number: u32,
}

impl Codes {
    /// `name` is different in each test, so that its processes can be found.
    async fn new(name: &str) -> Codes {
        let name = format!("{name}-{}.py", std::process::id());
        Codes { sandbox: sandbox().await, name, number: 0 }
    }

    async fn run(&mut self, code: &[u8]) -> Outcome {
        self.number += 1;
        let (language, name) = (Language::Python, self.name.clone());
        let arguments = vec!["one".to_owned(), "two words".to_owned()];
        let program = Program::Code { language, name, code: code.to_vec(), arguments };
        let mut running = self.sandbox.start(Execution::new(program)).await.unwrap();
        // Fails if the program ended before; its end reports a lost sandbox.
        let _ = running.stdin.write_all(b"first\nsecond\n").await;
        let _ = running.stdin.shutdown().await;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        running.stdout.read_to_end(&mut stdout).await.unwrap();
        running.stderr.read_to_end(&mut stderr).await.unwrap();
        let end = running.end.await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Outcome { stdout: text(&stdout), stderr: text(&stderr), end }
    }

    async fn printed(&mut self, code: &str) -> String {
        let outcome = self.run(code.as_bytes()).await;
        assert_eq!((outcome.stderr.as_str(), outcome.end), ("", ProcessEnd::Exited { code: 0 }));
        outcome.stdout
    }

    /// The interpreter that waits for the next code.
    fn waiting(&self) -> Option<Interpreter> {
        let path = format!("/run/code/{}/{}", self.number, self.name);
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter_map(Interpreter::of).find(|found| found.arguments.contains(&path))
    }

    /// Runs code until an interpreter waits for the next, and has started completely.
    async fn prepare(&mut self) -> Interpreter {
        for _ in 0..2 {
            self.printed("pass").await;
        }
        let begun = Instant::now();
        let mut before = None;
        loop {
            let found = self.waiting().filter(|found| found.is_asleep);
            match found {
                Some(found) if before.as_ref() == Some(&found) => return found,
                found => before = found,
            }
            assert!(begun.elapsed() < LIMIT, "no interpreter waits for {}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A process of the host that waits for code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interpreter {
    process: i32,
    /// Its process id inside.
    inside: String,
    arguments: String,
    is_asleep: bool,
    /// The time that it has used so far.
    used: Vec<String>,
}

impl Interpreter {
    fn of(process: i32) -> Option<Interpreter> {
        let read = |name| fs::read_to_string(format!("/proc/{process}/{name}")).ok();
        let arguments = read("cmdline")?;
        let status = read("status")?;
        let line = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let inside = line("NSpid:")?.split_whitespace().last()?.to_owned();
        let is_asleep = line("State:")?.trim_start().starts_with('S');
        let used = read("stat")?.split(' ').skip(13).take(2).map(str::to_owned).collect();
        Some(Interpreter { process, inside, arguments, is_asleep, used })
    }
}

#[test]
fn code_runs_in_the_interpreter_that_was_prepared_for_it() {
    if !is_prepared_here() {
        return;
    }
    runtime().block_on(async {
        let mut codes = Codes::new("used").await;
        for _ in 0..3 {
            let prepared = codes.prepare().await;
            let printed = codes.printed("import os; print(os.getpid())").await;
            assert_eq!(printed.trim(), prepared.inside);
        }
        // The first code of a sandbox pays for nothing: most sandboxes run no other.
        let mut once = Codes::new("once").await;
        once.printed("pass").await;
        once.sandbox.start(shell("sleep 0.2")).await.unwrap().end.await.unwrap();
        assert_eq!(once.waiting(), None);
    });
}

/// The number of the cgroup leaf in the text of a `cgroup` file of /proc.
fn leaf_of(cgroups: &str) -> Option<u64> {
    let (_, rest) = cgroups.split_once("/exec-")?;
    rest.split(['/', '\n']).next()?.parse().ok()
}

#[test]
fn prepared_interpreter_waits_in_the_leaf_of_its_execution_and_no_other_program_gets_it() {
    if !is_prepared_here() {
        return;
    }
    runtime().block_on(async {
        let mut codes = Codes::new("leaf").await;
        let waits_in = |prepared: &Interpreter| {
            leaf_of(&fs::read_to_string(format!("/proc/{}/cgroup", prepared.process)).unwrap())
        };
        // The first of several has no leaf, because none was announced with the code before it.
        codes.prepare().await;
        let prepared = codes.prepare().await;
        let leaf = waits_in(&prepared);
        assert!(leaf.is_some(), "{prepared:?}");
        let code = "import os; print(os.getpid(), open('/proc/self/cgroup').read())";
        let printed = codes.printed(code).await;
        assert!(printed.starts_with(&prepared.inside), "{printed}");
        assert_eq!(leaf_of(&printed), leaf);
        let leaf = waits_in(&codes.prepare().await);
        let other = codes.sandbox.start(shell("cat /proc/self/cgroup")).await.unwrap();
        let (seen, _) = finished(other).await;
        assert!(leaf_of(&seen).is_some() && leaf_of(&seen) != leaf, "{leaf:?}: {seen}");
    });
}

#[test]
fn hundred_executions_share_no_process_id_hash_seed_or_random_number() {
    const TIMES: usize = 100;
    if !is_prepared_here() {
        return;
    }
    let code =
        "import os, random, uuid; print(os.getpid(), hash('x'), random.random(), uuid.uuid4())";
    runtime().block_on(async {
        let mut codes = Codes::new("seeds").await;
        let mut seen = vec![HashSet::new(); 4];
        let mut used = 0;
        for _ in 0..TIMES {
            let waiting = codes.waiting();
            let printed = codes.printed(code).await;
            let values: Vec<&str> = printed.split_whitespace().collect();
            used += usize::from(waiting.is_some_and(|waiting| waiting.inside == values[0]));
            for (seen, value) in seen.iter_mut().zip(values) {
                seen.insert(value.to_owned());
            }
        }
        assert_eq!(seen.iter().map(HashSet::len).collect::<Vec<_>>(), [TIMES; 4]);
        assert!(used > 0, "no execution was prepared");
    });
}

/// Programs that show how they were started, or how they end.
const SNIPPETS: &[&[u8]] = &[
    b"import sys; print(sys.argv, sys.orig_argv, sys.flags, sys.path, sys.executable)",
    b"print(__name__, __file__, __spec__, __loader__.name, sorted(globals()))",
    b"import sys; print(sorted(sys.modules), sys.warnoptions, sys._xoptions, sys.dont_write_bytecode)",
    b"import os; print(sorted(os.listdir('/proc/self/fd')), os.getcwd(), sorted(os.environ.items()))",
    b"print(open('/proc/self/cmdline').read().split(chr(0)), open(__file__).read())",
    b"import os; print(os.getsid(0) == os.getpgrp() == os.getpid(), os.getppid(), oct(os.umask(0)))",
    b"print([line for line in open('/proc/self/status') if line[:3] in ('Sig', 'Sec', 'NoN', 'Cap', 'Gro')])",
    b"import resource as r; print([r.getrlimit(i) for i in range(16)])",
    b"import signal as s; print([s.getsignal(i) for i in range(1, 32)], s.pthread_sigmask(0, []))",
    b"def f():\n    raise ValueError('no')\n\nf()\n",
    b"print(1)\nprint(2\n",
    b"try:\n    1 / 0\nexcept Exception as e:\n    raise RuntimeError from e",
    b"import sys; print('out'); sys.exit(7)",
    b"raise SystemExit('a text')",
    b"import atexit; atexit.register(print, 'at exit'); print('end')",
    b"import os; print('lost'); os._exit(3)",
    b"import sys; sys.excepthook = lambda *it: print('hook', it[0]); raise KeyError(1)",
    b"import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join(); print('after')",
    b"import multiprocessing as m\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))",
    b"import multiprocessing as m\ndef f(q): q.put(__name__)\nif __name__ == '__main__':\n    c = m.get_context('spawn'); q = c.Queue(); p = c.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join()",
    b"import sys; print(repr(input()), repr(sys.stdin.read()), sys.stdin.encoding)",
    b"import sys; print(sys.stdout.line_buffering, sys.stdout.write_through, sys.stderr.line_buffering, sys.stdout.errors)",
    b"import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGTERM)",
    b"import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    b"import os; os.kill(os.getpid(), 9)",
    b"import inspect\ndef f(): pass\nprint(inspect.getsource(f))",
    b"import warnings; warnings.warn('careful')",
    b"\xef\xbb\xbfprint('\xc3\xa4')",
    b"# coding: latin-1\nprint(ascii('\xe4'))",
    b"print('\xff')",
    b"print('null \0')",
    b"print(1)\r\nprint(2)\r\n",
    b"",
];

#[test]
fn prepared_interpreter_behaves_like_an_ordinary_start() {
    if !is_prepared_here() {
        return;
    }
    runtime().block_on(async {
        let mut codes = Codes::new("equal").await;
        let long = format!("x = 0\n{}print(x)\n", "x += 1  # a longer line\n".repeat(20_000));
        let long = long.as_bytes();
        for code in SNIPPETS.iter().chain([&long]) {
            // After another program nothing is prepared.
            finished(codes.sandbox.start(shell("true")).await.unwrap()).await.1.unwrap();
            assert_eq!(codes.waiting(), None);
            let ordinary = without_number(codes.run(code).await, codes.number - 1);
            codes.prepare().await;
            let prepared = without_number(codes.run(code).await, codes.number - 1);
            let shown = String::from_utf8_lossy(&code[..code.len().min(200)]).into_owned();
            assert_eq!(prepared, ordinary, "{shown}");
        }
    });
}

/// The same outcome without the number of the code's directory.
fn without_number(outcome: Outcome, number: u32) -> Outcome {
    let own = match number {
        0 => "/run/code/".to_owned(),
        number => format!("/run/code/{number}/"),
    };
    let replaced = |text: String| {
        let without_slash = own.trim_end_matches('/');
        text.replace(&own, "CODE/").replace(&format!("'{without_slash}'"), "'CODE'")
    };
    Outcome { stdout: replaced(outcome.stdout), stderr: replaced(outcome.stderr), ..outcome }
}

#[test]
fn execution_leaves_nothing_to_the_next() {
    if !is_prepared_here() {
        return;
    }
    let change = "
import builtins, os, random, sys
os.environ['LEFT'] = 'x'; os.chdir('/tmp'); os.umask(0); random.seed(1); sys.setrecursionlimit(77)
sys.modules['json'] = os; builtins.left = 1; os.open('/tmp', os.O_RDONLY)
builtins.print = None
if os.fork() == 0:
    os.setsid()
    while True: pass
";
    let look = "
import builtins, json, os, sys
print('LEFT' in os.environ, os.getcwd(), oct(os.umask(0)), sys.getrecursionlimit(),
      json.__name__, hasattr(builtins, 'left'), len(os.listdir('/proc/self/fd')),
      [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid())])
";
    runtime().block_on(async {
        let mut codes = Codes::new("left").await;
        codes.prepare().await;
        codes.printed(change).await;
        assert_eq!(codes.printed(look).await, "False /workspace 0o22 1000 json False 4 []\n");
    });
}

#[test]
fn killed_interpreter_leaves_the_next_execution_an_ordinary_start() {
    if !is_prepared_here() {
        return;
    }
    runtime().block_on(async {
        let mut codes = Codes::new("killed").await;
        let prepared = codes.prepare().await;
        kill_process(Pid::from_raw(prepared.process).unwrap(), Signal::KILL).unwrap();
        let begun = Instant::now();
        // A kill that arrives after the code counts as one of the execution.
        while Interpreter::of(prepared.process).is_some() {
            assert!(begun.elapsed() < LIMIT, "the interpreter survives");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let printed = codes.printed("import os; print(os.getpid())").await;
        assert_ne!(printed.trim(), prepared.inside);
        // A kill in the middle of the execution is its end.
        let prepared = codes.prepare().await;
        let wait = "print('up', flush=True); input(); input(); import time; time.sleep(60)";
        let kill = async {
            let begun = Instant::now();
            // The interpreter has read its code once it has used more time.
            while Interpreter::of(prepared.process).is_some_and(|now| now.used == prepared.used)
                && begun.elapsed() < Duration::from_secs(2)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            kill_process(Pid::from_raw(prepared.process).unwrap(), Signal::KILL).unwrap();
        };
        let (outcome, ()) = tokio::join!(codes.run(wait.as_bytes()), kill);
        assert_eq!(outcome.end, ProcessEnd::Signaled { signal: 9 });
        assert_eq!(codes.printed("print('next')").await, "next\n");
    });
}

#[test]
fn no_program_runs_while_an_interpreter_waits() {
    if !is_prepared_here() {
        return;
    }
    runtime().block_on(async {
        let mut codes = Codes::new("alone").await;
        codes.prepare().await;
        let script =
            "find /run/code -type p; for one in /proc/[0-9]*; do tr '\\0' ' ' <$one/cmdline; done";
        let other = codes.sandbox.start(shell(script)).await.unwrap();
        let (seen, _) = finished(other).await;
        assert!(seen.contains("sh -c") && !seen.contains(&codes.name), "{seen}");
        assert_eq!(codes.waiting(), None);
    });
}

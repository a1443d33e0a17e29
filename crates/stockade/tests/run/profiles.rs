//! Custom seccomp profiles, from the policy to the kernel.

use serde_json::json;

use crate::reduced;
use crate::support::{Run, command, examples, finish_with, stockade, walls_can_be_built};
use stockade_testing::Scratch;

/// Runs a shell line under a policy that names a profile.
fn under(scratch: &Scratch, profile: &str, line: &str) -> Run {
    scratch.file("profile.json", profile);
    let policy = scratch.file("policy.yaml", "seccomp: ./profile.json\n");
    stockade(&["--policy", &policy, "--", "sh", "-c", line])
}

const MAKE: &str = "mkdir /tmp/made && echo made; echo on";

#[test]
fn profile_of_a_container_engine_denies_what_works_without_it() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let allowing = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}"#;
    assert_eq!(under(&scratch, allowing, MAKE).text(), "made\non\n");
    let denying = r#"{
  "defaultAction": "SCMP_ACT_ALLOW",
  "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
  "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 122}]
}"#;
    let run = under(&scratch, denying, MAKE);
    assert_eq!(run.text(), "on\n");
    assert!(run.stderr.contains("quota exceeded"), "the number is the profile's: {}", run.stderr);
}

#[test]
fn older_profile_format_denies_calls_and_matches_arguments() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let older = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
  {"name": "mkdir", "action": "SCMP_ACT_ERRNO", "args": []},
  {"name": "mkdirat", "action": "SCMP_ACT_ERRNO", "args": []},
  {"name": "alarm", "action": "SCMP_ACT_ERRNO",
   "args": [{"index": 0, "val": 7, "op": "SCMP_CMP_EQ"}]}
]}"#;
    assert_eq!(under(&scratch, older, MAKE).text(), "on\n");
    // Other architectures number system calls differently, and some lack alarm(2).
    if cfg!(target_arch = "x86_64") {
        let alarms = "python3 -c 'import ctypes; libc = ctypes.CDLL(None)
for seconds in 7, 8, 0: print(libc.syscall(37, seconds))'";
        let allowing = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}"#;
        assert_eq!(under(&scratch, allowing, alarms).text(), "0\n7\n8\n");
        assert_eq!(under(&scratch, older, alarms).text(), "-1\n0\n8\n");
    }
}

#[test]
fn invalid_profile_is_refused_with_its_file_and_the_cause() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let refused = |profile: &str, message: &str, remedy: &str| {
        let run = under(&scratch, profile, "echo ran");
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
        let (first, rest) = run.stderr.split_once('\n').expect("a message is a line");
        assert!(first.starts_with("error: ") && first.contains("profile.json"), "{}", run.stderr);
        assert!(first.contains(message) && rest.contains(remedy), "{}", run.stderr);
    };
    let comment = "{\n  /* nothing\n  \"defaultAction\": \"SCMP_ACT_ALLOW\"\n}\n";
    refused(comment, "line 2, column 3: this comment has no end", "*/");
    let unknown = r#"{"defaultAction": "SCMP_ACT_PERMIT", "syscalls": []}"#;
    refused(unknown, "SCMP_ACT_PERMIT", "SCMP_ACT_");
}

#[test]
fn profile_that_prevents_a_start_is_reported_with_the_refused_call() {
    if !walls_can_be_built() {
        return;
    }
    let refuse = |call: &str, action: &str| {
        format!(
            r#"{{"defaultAction": "SCMP_ACT_ALLOW",
                 "syscalls": [{{"names": ["{call}"], "action": "SCMP_ACT_{action}"}}]}}"#
        )
    };
    let nothing = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}"#.to_owned();
    for wall in walls() {
        let scratch = Scratch::new();
        let policy = scratch.file("policy.yaml", format!("{ANY_WALL}seccomp: ./profile.json\n"));
        for (profile, call) in [
            (refuse("execve", "ERRNO"), "execve"),
            (refuse("execve", "KILL_PROCESS"), "execve"),
            (refuse("mmap", "ERRNO"), "mmap"),
            (nothing.clone(), "execve"),
        ] {
            scratch.file("profile.json", &profile);
            let run = behind(wall, &["--json", "--policy", &policy, "--", "echo", "ran"], b"");
            let report = run.json();
            assert_eq!((run.code, &report["outcome"]), (127, &json!("not_started")), "{report}");
            assert_eq!(report["not_started"]["refused_call"], call, "{report}");
            assert_eq!(report["stdout"], "");
        }
        let run = behind(wall, &["--policy", &policy, "--", "echo", "ran"], b"");
        assert!(run.stderr.contains("seccomp profile refuses execve"), "{}", run.stderr);
    }
}

/// A policy line that accepts every wall.
const ANY_WALL: &str = "isolation: reduced\n";

/// The flags that select each wall that this host can build.
fn walls() -> Vec<&'static [&'static str]> {
    const REDUCED: &[&str] = &["--provider", "reduced", "--isolation", "reduced"];
    let reduced = reduced::can_be_built().then_some(REDUCED);
    [&[][..]].into_iter().chain(reduced).collect()
}

/// Runs a program behind a wall, with only system directories in `PATH`.
fn behind(wall: &[&str], words: &[&str], input: &[u8]) -> Run {
    let mut command = command(&[wall, words].concat());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    finish_with(command, input)
}

/// System calls of `cat`, `tee` and the loader, on glibc and musl. The list lacks the calls that
/// the guest needs to start a program and to forward its output.
const OF_PROGRAM: &str = "
    execve exit_group exit brk mmap munmap mprotect madvise arch_prctl set_tid_address
    set_robust_list rseq futex open access read pread64 close fstat newfstatat write writev
    prlimit64 getrandom rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack
    fadvise64 lseek copy_file_range splice sendfile ioctl
";

/// A profile in the style of tutorials: few calls, read-only opens, and comments.
fn tutorial() -> String {
    let names: Vec<String> =
        OF_PROGRAM.split_whitespace().map(|name| format!("\"{name}\"")).collect();
    format!(
        r#"{{
  // Everything that is not listed is refused.
  "defaultAction": "SCMP_ACT_ERRNO",
  "architectures": ["SCMP_ARCH_NATIVE"],
  "syscalls": [
    {{ "names": [{}], "action": "SCMP_ACT_ALLOW" }}, // a program that reads and prints
    /* Files may be opened to read: O_ACCMODE is 3 and O_RDONLY is 0. */
    {{ "names": ["openat"], "action": "SCMP_ACT_ALLOW",
       "args": [{{ "index": 2, "value": 3, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }}] }}
  ]
}}"#,
        names.join(", ")
    )
}

#[test]
fn profile_with_few_calls_applies_to_the_program_and_not_to_the_guest() {
    if !walls_can_be_built() {
        return;
    }
    for wall in walls() {
        let scratch = Scratch::new();
        scratch.file("profile.json", tutorial());
        let policy = scratch.file("policy.yaml", format!("{ANY_WALL}seccomp: ./profile.json\n"));
        let read = behind(wall, &["--policy", &policy, "--", "cat", "/usr/bin/true"], b"");
        assert_eq!(read.code, 0, "{}", read.stderr);
        assert_eq!(read.bytes, std::fs::read("/usr/bin/true").unwrap());
        let works = behind(wall, &["--", "tee", "made"], b"through");
        assert_eq!((works.code, works.stdout.as_str()), (0, "through"), "{}", works.stderr);
        let write = behind(wall, &["--policy", &policy, "--", "tee", "made"], b"through");
        assert_eq!((write.code, write.stdout.as_str()), (1, "through"), "{}", write.stderr);
        assert!(write.stderr.contains("made"), "{}", write.stderr);
    }
}

#[test]
fn no_write_open_example_refuses_only_opening_for_writing() {
    if !walls_can_be_built() {
        return;
    }
    let profile = examples().join("seccomp/no-write-open.json");
    let script = "import os
def tried(flags):
    try: os.close(os.open('made', flags, 0o600))
    except OSError as error: return error.errno
print([tried(flags) for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDONLY, os.O_RDWR, os.O_WRONLY,
    os.O_RDONLY | os.O_CREAT, os.O_RDONLY | os.O_TRUNC)])
print(len(open('/usr/bin/true', 'rb').read()) > 0)";
    for wall in walls() {
        let run = behind(wall, &["--", "python3", "-c", script], b"");
        assert_eq!(run.text(), "[None, None, None, None, None, None]\nTrue\n");
        let scratch = Scratch::new();
        let policy = format!("{ANY_WALL}seccomp: {}\n", profile.display());
        let policy = scratch.file("policy.yaml", &policy);
        let run = behind(wall, &["--policy", &policy, "--", "python3", "-c", script], b"");
        assert_eq!(run.text(), "[13, 2, 13, 13, 13, 13]\nTrue\n");
    }
}

#[test]
fn two_profiles_apply_together_even_if_one_refuses_seccomp() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let refuse = |calls: &str| {
        format!(
            r#"{{"defaultAction": "SCMP_ACT_ALLOW",
                 "syscalls": [{{"names": [{calls}], "action": "SCMP_ACT_ERRNO"}}]}}"#
        )
    };
    scratch.file("first.json", refuse(r#""seccomp", "mkdir", "mkdirat""#));
    scratch.file("second.json", refuse(r#""link", "linkat""#));
    let line = "mkdir /tmp/made || echo no; : > /tmp/a; ln /tmp/a /tmp/b || echo no";
    for order in ["[./first.json, ./second.json]", "[./second.json, ./first.json]"] {
        let policy = scratch.file("policy.yaml", format!("seccomp: {order}\n"));
        assert_eq!(stockade(&["--policy", &policy, "--", "sh", "-c", line]).text(), "no\nno\n");
    }
}

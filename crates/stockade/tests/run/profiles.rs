//! Seccomp profiles of one's own, from the policy to the kernel.

use crate::scratch::Scratch;
use crate::support::{Run, stockade, walls_can_be_built};

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
fn older_spelling_denies_the_same_and_by_argument() {
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
    // Other machines have other numbers, and not all have this call.
    if cfg!(target_arch = "x86_64") {
        let alarms = "python3 -c 'import ctypes; libc = ctypes.CDLL(None)
for seconds in 7, 8, 0: print(libc.syscall(37, seconds))'";
        let allowing = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}"#;
        assert_eq!(under(&scratch, allowing, alarms).text(), "0\n7\n8\n");
        assert_eq!(under(&scratch, older, alarms).text(), "-1\n0\n8\n");
    }
}

#[test]
fn profile_that_forbids_the_start_or_is_no_json_is_refused_by_name() {
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
    let execve = r#"{"defaultAction": "SCMP_ACT_ALLOW",
  "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_ERRNO"}]}"#;
    refused(execve, "refuses execve", "allow that system call");
    let comment = "{\n  // nothing\n  \"defaultAction\": \"SCMP_ACT_ALLOW\"\n}\n";
    refused(comment, "line 2, column 3: this is a comment", "remove it");
    let unknown = r#"{"defaultAction": "SCMP_ACT_PERMIT", "syscalls": []}"#;
    refused(unknown, "SCMP_ACT_PERMIT", "SCMP_ACT_");
}

/// What `true` and whoever starts it need, by either C library.
const LEAST: &str = "
    execve exit_group exit brk mmap munmap mprotect madvise arch_prctl set_tid_address
    set_robust_list rseq futex open openat access read pread64 close fstat newfstatat write
    prlimit64 getrandom rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack dup2 dup3
    vfork clone3
";

/// What the guest needs.
const OF_GUEST: &str = "
    signalfd4 pipe2 fcntl sendmsg close_range prctl umask chdir clone setsid wait4 waitid kill
    getpid
    ppoll
";

#[test]
fn profile_that_refuses_what_the_guest_needs_is_refused_with_the_call() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", "seccomp: ./profile.json\n");
    let without = |missing: &str| {
        let names = LEAST.split_whitespace().chain(OF_GUEST.split_whitespace());
        let names: Vec<String> =
            names.filter(|name| *name != missing).map(|name| format!("\"{name}\"")).collect();
        let allowed = format!(r#"{{"names": [{}], "action": "SCMP_ACT_ALLOW"}}"#, names.join(","));
        let profile = format!(r#"{{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{allowed}]}}"#);
        scratch.file("profile.json", &profile);
        stockade(&["--policy", &policy, "--", "true"])
    };
    let least = without("");
    assert_eq!(least.code, 0, "{}", least.stderr);
    for name in OF_GUEST.split_whitespace() {
        let run = without(name);
        assert_eq!(run.code, 125, "{name}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("refuses {name}, which the guest")), "{}", run.stderr);
    }
}

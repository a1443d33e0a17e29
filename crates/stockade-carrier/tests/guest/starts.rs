//! Programs that start, and programs that fail to.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use stockade_provider::{ErrorKind, ProcessEnd};

use crate::support::{Guest, Outcome, Transport, command, run, run_alone, shell};

const ENOENT: i32 = 2;
const EACCES: i32 = 13;

fn not_started(errno: i32, program: &str) -> ProcessEnd {
    ProcessEnd::NotStarted { errno, program: program.to_owned(), refused_call: None }
}

#[tokio::test]
async fn missing_and_forbidden_programs_are_reported_with_the_kernels_reason() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let missing = run(&link, &command(&["no-such-program"]), b"").await;
        assert_eq!(missing.end, not_started(ENOENT, "no-such-program"));
        let forbidden = run(&link, &command(&["/etc/passwd"]), b"").await;
        assert_eq!(forbidden.end, not_started(EACCES, "/etc/passwd"));
        let mut elsewhere = command(&["true"]);
        elsewhere.working_directory = "/no/such/folder".to_owned();
        assert_eq!(run(&link, &elsewhere, b"").await.end, not_started(ENOENT, "/no/such/folder"));
        let after = run(&link, &shell("echo still here"), b"").await;
        assert_eq!(after, Outcome::exited(0, "still here\n", ""));
    }
}

#[tokio::test]
async fn program_sees_its_arguments_environment_directory_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let mut asked = shell("echo \"$0|$1|$A|$PWD|$(umask)|$(ls /proc/self/fd | tr '\\n' ' ')\"");
    asked.arguments.extend(["zero".to_owned(), "one two".to_owned()]);
    asked.environment.push(("A".to_owned(), "b=c".to_owned()));
    asked.working_directory = path.clone();
    // The fourth descriptor is the directory that ls reads.
    let expected = format!("zero|one two|b=c|{path}|0022|0 1 2 3 \n");
    assert_eq!(run_alone(&asked, b"").await, Outcome::exited(0, &expected, ""));
}

#[tokio::test]
async fn oom_killer_prefers_the_program_to_the_guest() {
    // The score is set right after the start, and the input arrives later.
    let read = run_alone(&shell("read line; cat /proc/self/oom_score_adj"), b"\n").await;
    assert_eq!(read, Outcome::exited(0, "500\n", ""));
}

#[tokio::test]
async fn code_of_ten_megabytes_is_written_for_its_owner_only_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/code.py");
    let name = path.to_str().unwrap().to_owned();
    let code: Vec<u8> = (0..10_usize << 20).map(|index| (index / 7) as u8).collect();
    let mut count = command(&["wc", "-c", &name]);
    count.code = Some((name.clone(), code.clone()));
    let counted = run_alone(&count, b"").await;
    assert_eq!(counted, Outcome::exited(0, &format!("{} {name}\n", code.len()), ""));
    assert!(fs::read(&path).unwrap() == code);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn code_that_cannot_be_written_keeps_the_program_from_starting() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let mut asked = command(&["true"]);
        asked.code = Some(("/proc/no/such/code".to_owned(), vec![0; 1 << 20]));
        assert_eq!(run(&link, &asked, b"").await.end, not_started(ENOENT, "/proc/no/such/code"));
        assert_eq!(run(&link, &command(&["true"]), b"").await, Outcome::exited(0, "", ""));
    }
}

#[tokio::test]
async fn invalid_command_is_refused_before_anything_is_sent() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let mut variable = command(&["true"]);
        variable.environment.push(("A=B".to_owned(), String::new()));
        for wrong in [command(&["tr\0ue"]), variable] {
            let refused = link.execute(wrong).map(|_| ());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert_eq!(run(&link, &command(&["true"]), b"").await, Outcome::exited(0, "", ""));
    }
}

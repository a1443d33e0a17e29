//! Starts that must fail, and must not run the program half protected.

use std::fs;
use std::path::Path;

use stockade_sys::{Instruction, install_filter, set_no_new_privs};

use super::must;
use crate::bench::Bench;
use crate::seen::{Output, Seen, finish};
use crate::wall::Wall;

const OUT: &[&str] = &["--mount", "{writable}:/out:rw"];
pub(crate) const REFUSED: i32 = 125;

/// A fault that a seccomp filter injects into one system call.
#[derive(Clone, Copy)]
struct Fault {
    call: libc::c_long,
    /// An argument's index, a mask, and the value that the masked argument must have.
    when: Option<(u32, u32, u32)>,
    /// The error number, or `None` to kill the calling process.
    errno: Option<i32>,
}

const fn fails(call: libc::c_long, errno: i32) -> Fault {
    Fault { call, when: None, errno: Some(errno) }
}

/// prctl(2) with this option.
const fn option_fails(option: u32) -> Fault {
    let when = Some((0, u32::MAX, option));
    Fault { call: libc::SYS_prctl, when, errno: Some(libc::EPERM) }
}

/// Runs an act that writes a proof file, under injected faults; returns whether it wrote it.
fn under(bench: &Bench, wall: &Wall, faults: &[Fault]) -> Result<(Seen, bool), String> {
    let mark = Path::new(&wall.names["writable"]).join("mark");
    // The file exists only if an act ran before.
    let _ = fs::remove_file(&mark);
    let command = wall.command(bench, OUT, &["mark", "/out/mark"]);
    let programs: Vec<_> = faults.iter().map(program).collect();
    // A filter stays with its thread, so each one gets a new thread.
    let thread = std::thread::spawn(move || {
        set_no_new_privs().map_err(super::error_text)?;
        for program in programs {
            install_filter(&program).map_err(super::error_text)?;
        }
        finish(command, Output::Report)
    });
    let seen = thread.join().map_err(|_| "the thread panicked".to_owned())??;
    Ok((seen, mark.exists()))
}

fn refuses(bench: &Bench, wall: &Wall, name: &str, faults: &[Fault]) -> Result<(), String> {
    let (seen, is_marked) = under(bench, wall, faults)?;
    let refused = seen.code == Some(REFUSED) && !is_marked && seen.answer.is_none();
    must(refused, format!("{name}: {}", seen.summary()))
}

/// With a fault in an unused call the act runs and writes its file.
pub(crate) fn harmless(bench: &Bench, wall: &Wall) -> Result<String, String> {
    let (seen, is_marked) = under(bench, wall, &[fails(libc::SYS_acct, libc::EPERM)])?;
    must(is_marked && seen.code == Some(0), seen.summary())?;
    Ok("with a harmless fault the act runs and leaves its mark".to_owned())
}

/// Refuses one call of each layer.
pub(crate) fn refused(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let faults = [
        ("unshare", fails(libc::SYS_unshare, libc::EPERM)),
        ("mount", fails(libc::SYS_mount, libc::EPERM)),
        ("pivot_root", fails(libc::SYS_pivot_root, libc::EPERM)),
        ("setresuid", fails(libc::SYS_setresuid, libc::EPERM)),
        ("setresgid", fails(libc::SYS_setresgid, libc::EPERM)),
        ("capset", fails(libc::SYS_capset, libc::EPERM)),
        ("fsopen", fails(libc::SYS_fsopen, libc::EPERM)),
        ("seccomp", fails(libc::SYS_seccomp, libc::EINVAL)),
        ("landlock", fails(libc::SYS_landlock_restrict_self, libc::EPERM)),
        ("no new privileges", option_fails(38)),
        ("death of the parent", option_fails(1)),
    ];
    faults.iter().try_for_each(|(name, fault)| refuses(bench, wall, name, &[*fault]))
}

/// Kills the first process in the middle of its steps.
pub(crate) fn killed(bench: &Bench, wall: &Wall) -> Result<(), String> {
    for call in [libc::SYS_sethostname, libc::SYS_pivot_root, libc::SYS_capset] {
        let fault = Fault { call, when: None, errno: None };
        refuses(bench, wall, &format!("killed at call {call}"), &[fault])?;
    }
    Ok(())
}

/// A kernel without user namespaces and, under `command_allowlist`, one without Landlock.
pub(crate) fn old_kernel(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let user = libc::CLONE_NEWUSER as u32;
    let clone =
        Fault { call: libc::SYS_clone, when: Some((0, user, user)), errno: Some(libc::EPERM) };
    let clone3 = fails(libc::SYS_clone3, libc::ENOSYS);
    // Starting in a cgroup needs clone3, which is refused as a whole.
    refuses(bench, wall, "no user namespaces", &[clone, clone3])?;
    let command = wall.command(bench, &["--policy", "{listed}"], &["effective-user"]);
    let filter = program(&fails(libc::SYS_landlock_create_ruleset, libc::ENOSYS));
    let thread = std::thread::spawn(move || {
        set_no_new_privs().and_then(|()| install_filter(&filter)).map_err(super::error_text)?;
        finish(command, Output::Report)
    });
    let seen = thread.join().map_err(|_| "the thread panicked".to_owned())??;
    must(seen.code == Some(REFUSED) && seen.answer.is_none(), seen.summary())
}

/// If all limits are exact, `limits.exact` changes nothing.
pub(crate) fn exact_control(bench: &Bench, wall: &Wall) -> Result<String, String> {
    let seen = wall.act(bench, &["--policy", "{plain}"], &["effective-user"])?;
    must(seen.answer.is_some(), seen.summary())?;
    Ok("without the clause it runs".to_owned())
}

/// Limits that the report calls approximate are refused under `limits.exact`.
pub(crate) fn exact(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let plain = wall.act(bench, &["--policy", "{plain}"], &["effective-user"])?;
    let controls = plain.report["isolation"]["controls"].as_array();
    let controls = controls.ok_or("the report has no controls")?;
    let approximate = controls.iter().any(|control| control["precision"] == "approximate");
    let seen = wall.act(bench, &["--policy", "{exact}"], &["effective-user"])?;
    match approximate {
        true => must(seen.code == Some(REFUSED) && seen.answer.is_none(), seen.summary()),
        false => must(seen.answer.is_some(), seen.summary()),
    }
}

/// An ordinary policy runs.
pub(crate) fn policy_control(bench: &Bench, wall: &Wall) -> Result<String, String> {
    exact_control(bench, wall)
}

/// A policy with an unknown key or version is refused.
pub(crate) fn policy(bench: &Bench, wall: &Wall) -> Result<(), String> {
    for name in ["{unknown-key}", "{future}"] {
        let seen = wall.act(bench, &["--policy", name], &["effective-user"])?;
        must(seen.code == Some(REFUSED) && seen.answer.is_none(), seen.summary())?;
    }
    Ok(())
}

/// With a few more descriptors it runs.
pub(crate) fn descriptors_control(bench: &Bench, wall: &Wall) -> Result<String, String> {
    let seen = wall.act_after(bench, "ulimit -n 2048", &[], &["effective-user"])?;
    must(seen.answer.is_some(), seen.summary())?;
    Ok("with 2048 descriptors it runs".to_owned())
}

/// With too few descriptors it reports that, at whatever step it runs out.
pub(crate) fn descriptors(bench: &Bench, wall: &Wall) -> Result<(), String> {
    for most in [8, 12, 16] {
        let seen = wall.act_after(bench, &format!("ulimit -n {most}"), &[], &["effective-user"])?;
        let refused = seen.code == Some(REFUSED) && seen.answer.is_none();
        must(refused, format!("{most} descriptors: {}", seen.summary()))?;
    }
    Ok(())
}

/// A fault as a BPF program: seccomp(2), bpf(2).
fn program(fault: &Fault) -> Vec<Instruction> {
    const LOAD: u16 = 0x20;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;
    const ERRNO: u32 = 0x0005_0000;
    let line = |code, jt, jf, k| Instruction { code, jt, jf, k };
    let answer = fault.errno.map_or(KILL, |errno| ERRNO | errno.unsigned_abs());
    let number = u32::try_from(fault.call).unwrap_or(u32::MAX);
    let mut program = vec![line(LOAD, 0, 0, 0)];
    match fault.when {
        None => program.push(line(JUMP_IF_EQUAL, 0, 1, number)),
        // The arguments of struct seccomp_data start at byte 16, lower halves first.
        Some((argument, mask, value)) => program.extend([
            line(JUMP_IF_EQUAL, 0, 4, number),
            line(LOAD, 0, 0, 16 + 8 * argument),
            line(AND, 0, 0, mask),
            line(JUMP_IF_EQUAL, 0, 1, value),
        ]),
    }
    program.extend([line(RETURN, 0, 0, answer), line(RETURN, 0, 0, ALLOW)]);
    program
}

//! Faking terminal input.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};

use crate::Act;

pub(crate) const ACTS: &[(&str, Act)] = &[("type-ahead", type_ahead)];

/// Opens a pseudoterminal and tries to fake typed input with TIOCSTI.
fn type_ahead(_: &[&str]) -> Tried {
    const UNLOCK: u32 = 0x4004_5431;
    const NUMBER: u32 = 0x8004_5430;
    const TYPE: u32 = 0x5412;
    const LINE_DISCIPLINE: u32 = 0x5423;
    let open = |path: &str| {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path)
    };
    let pair = || -> io::Result<(File, File)> {
        let ours = open("/dev/ptmx")?;
        let descriptor = ours.as_raw_fd().unsigned_abs();
        let call = |request, bytes: &mut [u8]| {
            let numbers = [Argument::Number(descriptor), Argument::Number(request)];
            let [first, second] = numbers;
            raw_call(libc::SYS_ioctl, &mut [first, second, Argument::Bytes(bytes)])
        };
        call(UNLOCK, &mut [0; 4])?;
        let mut index = [0; 4];
        call(NUMBER, &mut index)?;
        let theirs = open(&format!("/dev/pts/{}", u32::from_ne_bytes(index)))?;
        Ok((ours, theirs))
    };
    let mut tried = Tried::default();
    let (_ours, theirs) = match pair() {
        Ok(pair) => pair,
        Err(error) => return Tried::one(Err::<String, _>(error)),
    };
    let descriptor = theirs.as_raw_fd().unsigned_abs();
    for (name, request) in [("TIOCSTI", TYPE), ("TIOCSETD", LINE_DISCIPLINE)] {
        let done = raw_call(
            libc::SYS_ioctl,
            &mut [
                Argument::Number(descriptor),
                Argument::Number(request),
                Argument::Bytes(&mut [0; 4]),
            ],
        );
        tried.add(name, done.map(|_| "done"));
    }
    tried
}

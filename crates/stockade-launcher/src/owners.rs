//! Idmappings for mounts: user namespaces without processes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::process::{Signal, WaitId, WaitIdOptions};
use stockade_sys::{Cloned, Namespaces, clone_process};

use crate::outside::write_maps;
use crate::plan::IdMap;

/// The idmappings created so far; most plans need one for all their trees.
#[derive(Default)]
pub(crate) struct Owners {
    made: Vec<((IdMap, IdMap), OwnedFd)>,
}

impl Owners {
    /// Returns the idmapping with these ids, created on first use.
    pub(crate) fn mapping(&mut self, users: IdMap, groups: IdMap) -> io::Result<&OwnedFd> {
        let known = self.made.iter().position(|(ids, _)| *ids == (users, groups));
        let index = match known {
            Some(index) => index,
            None => {
                self.made.push(((users, groups), make(&[users], &[groups])?));
                self.made.len() - 1
            }
        };
        Ok(&self.made[index].1)
    }
}

/// A user namespace lives as long as a process in it or a descriptor of it, so this creates a
/// process that does nothing, maps its ids, opens its namespace and ends it.
pub(crate) fn make(users: &[IdMap], groups: &[IdMap]) -> io::Result<OwnedFd> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match clone_process(Namespaces::USERS, None)? {
        Cloned::Child => {
            drop(theirs);
            // Until it is killed, or the launcher is gone.
            let _ = File::from(ours).read(&mut [0]);
            std::process::exit(0)
        }
        Cloned::Original { child, handle } => {
            let path = format!("/proc/{}/ns/user", child.as_raw_nonzero());
            let opened =
                write_maps(child, users, groups).and_then(|()| File::open(path).map(OwnedFd::from));
            let killed = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
            drop((ours, theirs));
            killed?;
            rustix::process::waitid(WaitId::Pid(child), WaitIdOptions::EXITED)?;
            opened
        }
    }
}

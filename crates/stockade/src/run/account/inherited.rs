//! What an account inherits when root executes this program as it: nothing that the arguments do
//! not name. Any process of the account may read the environment of the new process and take its
//! descriptors, proc(5), pidfd_getfd(2).

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::load;

/// Variables for the locale, the terminal and the search path.
const ORDINARY: [&str; 7] = ["PATH", "LANG", "TERM", "COLUMNS", "LINES", "NO_COLOR", "TZ"];

/// What the arguments name of the caller's.
pub(crate) struct Named<'a> {
    /// `--env`, as `NAME` or `NAME=VALUE`.
    pub(crate) variables: &'a [String],
    /// The files that are read, some of which may be open descriptors.
    pub(crate) files: Vec<&'a Path>,
}

impl Named<'_> {
    /// The variables of the caller that the account gets. Pure.
    pub(super) fn environment(
        &self,
        callers: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let is_passed = |name: &OsStr| {
            name.to_str().is_some_and(|name| {
                ORDINARY.contains(&name)
                    || name.starts_with("LC_")
                    || self.variables.iter().any(|named| named == name)
            })
        };
        callers.filter(|(name, _)| is_passed(name)).collect()
    }

    /// Makes every descriptor close at the next execve(2), except the standard streams and those
    /// that the arguments name.
    pub(crate) fn close_other_descriptors(&self) -> io::Result<()> {
        self.other_descriptors().into_iter().try_for_each(stockade_sys::close_on_exec)
    }

    /// The numbers from 3 on that the arguments do not name. Pure.
    fn other_descriptors(&self) -> Vec<RangeInclusive<u32>> {
        let mut named: Vec<u32> =
            self.files.iter().filter_map(|file| load::descriptor(file)).collect();
        named.sort_unstable();
        named.dedup();
        let mut ranges = Vec::new();
        let mut first = 3;
        for number in named.into_iter().filter(|number| *number >= 3) {
            if first < number {
                ranges.push(first..=number - 1);
            }
            first = number + 1;
        }
        ranges.push(first..=u32::MAX);
        ranges
    }
}

/// Clears the capabilities that would survive the change of the user: execve(2) hands on the
/// inheritable ones, capabilities(7).
pub(super) fn clear_inheritable() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let sets = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets { inheritable: CapabilitySet::empty(), ..sets };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ordinary_and_named_variables_are_passed() {
        let variables = ["PASSED".to_owned(), "GIVEN=here".to_owned()];
        let named = Named { variables: &variables, files: Vec::new() };
        let callers = ["PATH", "LC_ALL", "PASSED", "GIVEN", "SECRET_TOKEN", "SUDO_USER", "HOME"];
        let passed = named.environment(callers.iter().map(|name| (name.into(), "x".into())));
        let names: Vec<_> = passed.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["PATH", "LC_ALL", "PASSED"]);
    }

    #[test]
    fn every_descriptor_that_no_argument_names_is_closed() {
        let others = |files: &[&'static str]| {
            let files = files.iter().map(Path::new).collect();
            Named { variables: &[], files }.other_descriptors()
        };
        assert_eq!(others(&["script.py", "-", "/dev/fd/1"]), [3..=u32::MAX]);
        assert_eq!(others(&["/dev/fd/3"]), [4..=u32::MAX]);
        let files = ["/proc/self/fd/63", "/dev/fd/7", "/dev/fd/8", "/dev/fd/7"];
        assert_eq!(others(&files), [3..=6, 9..=62, 64..=u32::MAX]);
        assert_eq!(others(&["/dev/fd/4294967295"]), [3..=u32::MAX]);
    }
}

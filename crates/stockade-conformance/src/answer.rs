//! The result of an act, printed as one line of JSON.

use std::io;

use serde::{Deserialize, Serialize};

/// The result of one act. It reports what happened; the harness outside judges it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The act's name.
    pub act: String,
    /// The return value; negative if every try was refused.
    pub ret: i64,
    /// The error names of the refused tries, joined with `+`, such as `EPERM+ENOSYS`.
    pub errno: Option<String>,
    /// What the act observed.
    pub note: String,
}

/// The tries of one act: often several ways to reach the same target.
#[derive(Debug, Default)]
pub struct Tried {
    /// The tries that worked, each with its result.
    pub worked: Vec<String>,
    /// The errors of the refused tries.
    pub refused: Vec<io::Error>,
    /// A count or a measure, if the act has one.
    pub count: Option<i64>,
}

impl Tried {
    /// A single try.
    pub fn one(result: io::Result<impl Into<String>>) -> Tried {
        let mut tried = Tried::default();
        tried.add("", result);
        tried
    }

    /// A measure, and the error that stopped it.
    pub fn counted(count: i64, stopped_by: Option<io::Error>) -> Tried {
        Tried { worked: Vec::new(), refused: stopped_by.into_iter().collect(), count: Some(count) }
    }

    /// Adds a named try.
    pub fn add(&mut self, name: &str, result: io::Result<impl Into<String>>) {
        match result {
            Ok(note) => self.worked.push(match name {
                "" => note.into(),
                name => format!("{name}: {}", note.into()),
            }),
            Err(error) => self.refused.push(error),
        }
    }
}

impl Answer {
    /// Builds the answer of an act.
    pub fn of(act: &str, tried: Tried) -> Answer {
        let mut names: Vec<String> = tried.refused.iter().map(errno_of).collect();
        names.sort();
        names.dedup();
        let worked = i64::try_from(tried.worked.len()).unwrap_or(i64::MAX);
        let is_refused = worked == 0 && !names.is_empty();
        Answer {
            act: act.to_owned(),
            ret: tried.count.unwrap_or(if is_refused { -1 } else { worked }),
            errno: (!names.is_empty()).then(|| names.join("+")),
            note: tried.worked.join("; "),
        }
    }

    /// The error names; several if several tries were refused.
    pub fn errnos(&self) -> impl Iterator<Item = &str> {
        self.errno.iter().flat_map(|names| names.split('+'))
    }

    /// The answer as one line of JSON.
    pub fn line(&self) -> String {
        // Serialising texts and a number cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the last line of an output, if it is an answer.
    pub fn parse(output: &str) -> Option<Answer> {
        serde_json::from_str(output.lines().last()?).ok()
    }
}

/// The error numbers that probes meet, the same on x86_64 and aarch64.
const NAMES: [(i32, &str); 42] = [
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::ESRCH, "ESRCH"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::ENXIO, "ENXIO"),
    (libc::E2BIG, "E2BIG"),
    (libc::ENOEXEC, "ENOEXEC"),
    (libc::EBADF, "EBADF"),
    (libc::ECHILD, "ECHILD"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::ENOTBLK, "ENOTBLK"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::EXDEV, "EXDEV"),
    (libc::ENODEV, "ENODEV"),
    (libc::ENOTDIR, "ENOTDIR"),
    (libc::EISDIR, "EISDIR"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENFILE, "ENFILE"),
    (libc::EMFILE, "EMFILE"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::ETXTBSY, "ETXTBSY"),
    (libc::EFBIG, "EFBIG"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EROFS, "EROFS"),
    (libc::EPIPE, "EPIPE"),
    (libc::EDOM, "EDOM"),
    (libc::ENAMETOOLONG, "ENAMETOOLONG"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ELOOP, "ELOOP"),
    (libc::ENODATA, "ENODATA"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::ENOKEY, "ENOKEY"),
];

fn errno_of(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| "none".to_owned(), errno_name)
}

fn errno_name(number: i32) -> String {
    match NAMES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("E{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_is_parsed_as_an_answer() {
        let errors = [libc::EROFS, libc::EACCES, libc::EROFS];
        let refused = errors.map(io::Error::from_raw_os_error).into();
        let refused = Answer::of("x", Tried { refused, ..Tried::default() });
        assert_eq!((refused.ret, refused.errno.as_deref()), (-1, Some("EACCES+EROFS")));
        assert!(refused.errnos().eq(["EACCES", "EROFS"]));
        assert_eq!(Answer::parse(&format!("noise\n{}\n", refused.line())), Some(refused));
        assert_eq!(Answer::parse("noise\n"), None);
        assert_eq!(Answer::parse("{\"act\":\"x\"}"), None);
        assert_eq!(errno_name(4000), "E4000");
    }
}

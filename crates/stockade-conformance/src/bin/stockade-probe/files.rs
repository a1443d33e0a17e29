//! Reading: files, directories, links, descriptors.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};

use crate::{Act, errno, word};

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("read", read),
    ("list", list),
    ("open-to-write", open_to_write),
    ("descriptors", descriptors),
    ("climb", climb),
    ("by-handle", by_handle),
    ("scan", scan),
    ("deleted", deleted),
    ("memory-of", memory_of),
    ("search", search),
];

/// The first bytes of a file.
fn beginning(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::new();
    // O_NONBLOCK: reading a pipe without a writer would block.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    file.take(4096).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\0', " "))
}

/// Reads the first bytes of each file. An empty file counts as not read.
fn read(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in words {
        let text = beginning(path).and_then(|text| match text.is_empty() {
            true => Err(errno(libc::ENODATA)),
            false => Ok(text),
        });
        tried.add(path, text);
    }
    tried
}

/// Lists the names in each directory.
fn list(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in words {
        let names = names(path).map(|names| names.join(" "));
        tried.add(if words.len() == 1 { "" } else { path }, names);
    }
    tried
}

fn names(path: impl AsRef<Path>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Opens each file for writing and writes nothing.
fn open_to_write(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in words {
        tried.add(path, OpenOptions::new().write(true).open(path).map(|_| "opened"));
    }
    tried
}

/// Lists the inherited descriptors and their targets.
fn descriptors(_: &[&str]) -> Tried {
    let names = match names("/proc/self/fd") {
        Ok(names) => names,
        Err(error) => return Tried::one(Err::<String, _>(error)),
    };
    let mut found = Vec::new();
    for name in names {
        // Skips the descriptor that read_dir had open, which is closed by now.
        if let Ok(link) = fs::read_link(format!("/proc/self/fd/{name}")) {
            let link = link.to_string_lossy().into_owned();
            let kind = link.split([':', '[']).next().unwrap_or_default().to_owned();
            found.push(format!("{name}={kind}"));
        }
    }
    Tried::one(Ok(found.join(" ")))
}

/// Goes up a hundred directories from each place and reads a path from there.
fn climb(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    let target = word(words, 0).trim_start_matches('/');
    for place in &words[1..] {
        let up = || -> io::Result<String> {
            std::env::set_current_dir(place)?;
            for _ in 0..100 {
                std::env::set_current_dir("..")?;
            }
            beginning(target)
        };
        tried.add(place, up());
    }
    tried
}

/// Opens a file by its handle, which bypasses mounts.
fn by_handle(words: &[&str]) -> Tried {
    let Ok(path) = std::ffi::CString::new(word(words, 0)) else { return Tried::default() };
    let mut handle = [0_u8; 8 + 128];
    handle[0] = 128;
    let mut mount = [0_u8; 4];
    let directory = match File::open("/") {
        Ok(directory) => directory,
        Err(error) => return Tried::one(Err::<String, _>(error)),
    };
    let named = raw_call(
        libc::SYS_name_to_handle_at,
        &mut [
            Argument::Minus(100),
            Argument::Text(&path),
            Argument::Bytes(&mut handle),
            Argument::Bytes(&mut mount),
            Argument::Number(0),
        ],
    );
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&directory);
    let opened = named.and_then(|_| {
        raw_call(
            libc::SYS_open_by_handle_at,
            &mut [
                Argument::Number(descriptor.unsigned_abs()),
                Argument::Bytes(&mut handle),
                Argument::Number(0),
            ],
        )
    });
    Tried::one(opened.map(|_| "opened"))
}

/// Reads one file of every visible process.
fn scan(words: &[&str]) -> Tried {
    each_process(Path::new("/proc"), |process, tried| {
        tried.add("", beginning(process.join(word(words, 0))));
    })
}

/// Deleted files that some process holds open. The count is the number of processes whose
/// descriptors could be listed, always at least this one.
fn deleted(_: &[&str]) -> Tried {
    let mut listed = 0;
    let mut tried = each_process(Path::new("/proc"), |process, tried| {
        let folder = process.join("fd");
        let names = match names(&folder) {
            Ok(names) => names,
            Err(error) => return tried.refused.push(error),
        };
        listed += 1;
        for path in names.iter().map(|name| folder.join(name)) {
            let is_deleted = |link: &PathBuf| link.to_string_lossy().ends_with("(deleted)");
            if fs::read_link(&path).is_ok_and(|link| is_deleted(&link)) {
                tried.add("", beginning(&path));
            }
        }
    });
    if listed > 0 {
        tried.count = Some(listed);
    }
    tried
}

/// Inspects every visible process. If none can be listed, that is the result.
fn each_process(place: &Path, mut look: impl FnMut(&Path, &mut Tried)) -> Tried {
    let names = match names(place) {
        Ok(names) => names,
        Err(error) => return Tried::one(Err::<String, _>(error)),
    };
    let mut tried = Tried::default();
    let is_process = |name: &&String| name.bytes().all(|byte| byte.is_ascii_digit());
    for name in names.iter().filter(is_process) {
        look(&place.join(name), &mut tried);
    }
    if tried.worked.is_empty() && tried.refused.is_empty() {
        // A working listing contains at least this process.
        tried.refused.push(errno(libc::ESRCH));
    }
    tried
}

/// Reads another process's memory and directories through `/proc`.
fn memory_of(words: &[&str]) -> Tried {
    let process = Path::new("/proc").join(word(words, 0));
    let mut tried = Tried::default();
    for name in ["maps", "environ", "auxv"] {
        let text = beginning(process.join(name)).and_then(|text| match text.is_empty() {
            true => Err(errno(libc::EACCES)),
            false => Ok("read"),
        });
        tried.add(name, text);
    }
    tried.add("mem", File::open(process.join("mem")).map(|_| "opened"));
    for name in ["cwd", "root", "exe"] {
        tried.add(name, fs::read_link(process.join(name)).map(|_| "followed"));
    }
    tried.add("fd", names(process.join("fd")).map(|_| "listed"));
    tried
}

/// Reads every file below these places, a few levels deep.
fn search(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for place in words {
        below(Path::new(place), 6, &mut tried);
    }
    tried
}

fn below(place: &Path, depth: u32, tried: &mut Tried) {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) => return tried.refused.push(error),
    };
    for entry in entries.flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match is_directory {
            true if depth > 0 => below(&entry.path(), depth - 1, tried),
            true => {}
            false => tried.add(&entry.path().to_string_lossy(), beginning(entry.path())),
        }
    }
}

#[cfg(test)]
mod tests {
    use stockade_conformance::Answer;

    use super::*;

    fn looked(place: &str) -> (i64, Option<String>) {
        let look = |process: &Path, tried: &mut Tried| {
            tried.add("", beginning(process.join("comm")));
        };
        let answer = Answer::of("scan", each_process(Path::new(place), look));
        (answer.ret, answer.errno)
    }

    #[test]
    fn failed_listing_differs_from_an_empty_one() {
        assert!(looked("/proc").0 > 0);
        assert_eq!(looked("/no-such-place"), (-1, Some("ENOENT".to_owned())));
        assert_eq!(looked("/proc/self"), (-1, Some("ESRCH".to_owned())));
        assert!(Answer::of("deleted", deleted(&[])).ret > 0);
    }
}

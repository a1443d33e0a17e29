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

/// The beginning of a file.
fn beginning(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::new();
    // Without blocking: a pipe that nobody writes to has no beginning.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    file.take(4096).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\0', " "))
}

/// Reads the beginning of each file. An empty one has not been read.
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

/// The names in each directory.
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

/// Every descriptor this process was started with, and what each leads to.
fn descriptors(_: &[&str]) -> Tried {
    let mut found = Vec::new();
    for name in names("/proc/self/fd").unwrap_or_default() {
        // The directory that was read had a descriptor too, which is closed by now.
        if let Ok(link) = fs::read_link(format!("/proc/self/fd/{name}")) {
            let link = link.to_string_lossy().into_owned();
            let kind = link.split([':', '[']).next().unwrap_or_default().to_owned();
            found.push(format!("{name}={kind}"));
        }
    }
    Tried::one(Ok(found.join(" ")))
}

/// Goes up a hundred times from each place and reads a path from there.
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

/// Takes the handle of a file and opens it by that, past every mount.
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

/// A file of every process that can be seen.
fn scan(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for process in processes() {
        tried.add("", beginning(process.join(word(words, 0))));
    }
    tried
}

fn processes() -> Vec<PathBuf> {
    let is_process = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let names = names("/proc").unwrap_or_default().into_iter().filter(is_process);
    names.map(|name| Path::new("/proc").join(name)).collect()
}

/// Files that some process holds open and that have no name any more.
fn deleted(_: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for process in processes() {
        for name in names(process.join("fd")).unwrap_or_default() {
            let path = process.join("fd").join(name);
            let is_deleted = |link: &PathBuf| link.to_string_lossy().ends_with("(deleted)");
            if fs::read_link(&path).is_ok_and(|link| is_deleted(&link)) {
                tried.add("", beginning(&path));
            }
        }
    }
    tried
}

/// What `/proc` has of one process's memory and places.
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
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match is_directory {
            true if depth > 0 => below(&entry.path(), depth - 1, tried),
            true => {}
            false => tried.add(&entry.path().to_string_lossy(), beginning(entry.path())),
        }
    }
}

//! Reads what an ELF file needs from the dynamic loader. See ld.so(8).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef, StringTable};

use super::problem::Problem;

/// What the dynamic loader needs to load one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The loader; `None` for a static executable and for most libraries.
    pub(super) loader: Option<PathBuf>,
    /// Names or paths of libraries.
    pub(super) libraries: Vec<String>,
    /// Directories to search for the libraries of only this file.
    pub(super) run_path: Vec<PathBuf>,
    /// Directories to search for the libraries of this file and of everything it loads.
    pub(super) inherited_path: Vec<PathBuf>,
}

/// Reads the needs of a file whose path has no links.
pub(super) fn needs(file: &Path) -> Result<Needs, Problem> {
    let opened = File::open(file).map_err(|error| Problem::of_io(file, &error))?;
    let cache = ReadCache::new(Positioned::new(opened));
    let not_elf = || Problem::NotElf { path: file.to_path_buf() };
    let raw = Raw::read(&cache).ok_or_else(not_elf)?;
    let origin = file.parent().ok_or_else(not_elf)?;
    let directories =
        |lists: &[Vec<u8>]| lists.iter().flat_map(|list| expand(list, origin)).collect();
    Ok(Needs {
        loader: raw.loader.map(|path| PathBuf::from(OsStr::from_bytes(&path))),
        libraries: raw.needed.iter().map(|name| String::from_utf8_lossy(name).into()).collect(),
        run_path: directories(&raw.run_path),
        // The loader ignores DT_RPATH of a file with DT_RUNPATH.
        inherited_path: if raw.run_path.is_empty() { directories(&raw.r_path) } else { Vec::new() },
    })
}

/// A file of which the headers are read in one call, and whose position costs none: an installation
/// has seventy extension modules.
struct Positioned {
    file: File,
    head: [u8; 2048],
    filled: usize,
    at: u64,
}

impl Positioned {
    fn new(file: File) -> Positioned {
        let mut head = [0; 2048];
        let filled = file.read_at(&mut head, 0).unwrap_or(0);
        Positioned { file, head, filled, at: 0 }
    }
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(self.at).unwrap_or(usize::MAX);
        let count = match self.head[..self.filled].get(start..) {
            Some(rest) if !rest.is_empty() => Read::read(&mut &*rest, buffer)?,
            _ => self.file.read_at(buffer, self.at)?,
        };
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Positioned {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[derive(Default)]
struct Raw {
    loader: Option<Vec<u8>>,
    needed: Vec<Vec<u8>>,
    run_path: Vec<Vec<u8>>,
    r_path: Vec<Vec<u8>>,
}

impl Raw {
    fn read<'data, R: ReadRef<'data>>(bytes: R) -> Option<Raw> {
        let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, bytes).ok()?;
        let mut raw = Raw::default();
        for segment in segments {
            if let Some(path) = segment.interpreter(endian, bytes).ok()? {
                raw.loader = Some(path.to_vec());
            }
        }
        let dynamic = segments.iter().find_map(|one| one.dynamic(endian, bytes).ok().flatten());
        let Some(entries) = dynamic else { return Some(raw) };
        let value = |tag: u32| {
            let entry = entries.iter().find(|entry| entry.tag32(endian) == Some(tag))?;
            Some(entry.d_val(endian))
        };
        let (address, size) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
        // Not the whole segment: it can have a hundred megabytes.
        let start = segments.iter().find_map(|one| {
            let within = address.checked_sub(one.p_vaddr(endian))?;
            let holds = one.p_type(endian) == PT_LOAD && within < one.p_filesz(endian);
            if holds { one.p_offset(endian).checked_add(within) } else { None }
        })?;
        let table = bytes.read_bytes_at(start, size).ok()?;
        let strings = StringTable::new(table, 0, table.len() as u64);
        for entry in entries {
            let list = match entry.tag32(endian) {
                Some(DT_NEEDED) => &mut raw.needed,
                Some(DT_RUNPATH) => &mut raw.run_path,
                Some(DT_RPATH) => &mut raw.r_path,
                _ => continue,
            };
            list.push(strings.get(entry.val32(endian)?).ok()?.to_vec());
        }
        Some(raw)
    }
}

/// The directories of a search path, without entries that are relative or have a token other than
/// `$ORIGIN`. A library that is only in such an entry counts as missing.
fn expand(list: &[u8], origin: &Path) -> Vec<PathBuf> {
    let entry = |entry: &[u8]| {
        let text = str::from_utf8(entry).ok()?;
        let rest = text.strip_prefix("$ORIGIN").or_else(|| text.strip_prefix("${ORIGIN}"));
        let path = match rest {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                origin.join(rest.trim_start_matches('/'))
            }
            Some(_) => return None,
            None => PathBuf::from(text),
        };
        (path.is_absolute() && !text[1.min(text.len())..].contains('$')).then_some(path)
    };
    list.split(|byte| *byte == b':').filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_the_directory_of_the_file() {
        let expanded = expand(b"$ORIGIN/../lib:${ORIGIN}:/opt/lib", Path::new("/p/bin"));
        assert_eq!(expanded, ["/p/bin/../lib", "/p/bin", "/opt/lib"].map(PathBuf::from));
    }

    #[test]
    fn entries_that_depend_on_the_process_are_left_out() {
        let list = b":lib:.:$LIB/x:/opt/$PLATFORM:$ORIGINAL/x:\xff";
        assert_eq!(expand(list, Path::new("/p/bin")), Vec::<PathBuf>::new());
    }

    #[test]
    fn needs_of_a_system_program_are_read() {
        let needs = needs(&std::fs::canonicalize("/bin/bash").unwrap()).unwrap();
        assert!(needs.loader.unwrap().is_absolute());
        assert!(needs.libraries.iter().any(|name| name.starts_with("libc.")));
    }

    #[test]
    fn text_file_is_not_an_executable() {
        let file = Path::new("/etc/passwd");
        assert_eq!(needs(file), Err(Problem::NotElf { path: file.to_path_buf() }));
    }
}

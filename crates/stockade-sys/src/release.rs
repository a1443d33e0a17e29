//! Gives memory back that only the start of a program needed.
#![expect(unsafe_code, reason = "memory is given back by madvise(2) and malloc_trim(3)")]
// UNSAFETY: only pages that the kernel reads again from their file are dropped, and only free memory
// of the allocator.

use std::ffi::c_void;

/// Gives freed heap back to the kernel, and the pages of files that are mapped and unchanged, such
/// as code: the kernel maps them again when they are used. For a process that stays and does little.
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the allocator its own lock.
    unsafe {
        libc::malloc_trim(0);
    }
    // Without /proc the pages stay.
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for (start, bytes) in unchanged(&maps) {
        // SAFETY: every page of the mapping is its file's own, and none can be written, so dropping
        // them changes no content. An error leaves them where they are.
        unsafe {
            libc::madvise(start as *mut c_void, bytes, libc::MADV_DONTNEED);
        }
    }
}

/// The addresses and sizes of private mappings of files in the text of `/proc/self/smaps`, proc(5),
/// that cannot be written and have no page of their own: no relocation has changed them.
fn unchanged(maps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut current = None;
    for line in maps.lines() {
        match line.strip_prefix("Anonymous:") {
            Some(own) if own.trim() == "0 kB" => found.extend(current.take()),
            Some(_) => current = None,
            None => current = mapping(line).unwrap_or(current),
        }
    }
    found
}

/// What the first line of a mapping describes: its address and size, if it is private, of a file and
/// cannot be written. The outer `None` is another line.
fn mapping(line: &str) -> Option<Option<(usize, usize)>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let rights = words.next()?;
    let inode = words.nth(2)?;
    let is_fixed = matches!(rights, "r-xp" | "r--p") && inode != "0";
    Some(end.checked_sub(start).filter(|_| is_fixed).map(|bytes| (start, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_mappings_of_files_are_found() {
        let mapping = |rights: &str, inode: &str, own: &str| {
            format!(
                "55d0a000-55d0c000 {rights} 00001000 08:01 {inode}    /usr/bin/a name\n\
                 Size:                  8 kB\nRss:                   4 kB\n\
                 Anonymous:        {own} kB\nVmFlags: rd ex mr mw me\n"
            )
        };
        let expected = [(0x55d0_a000, 0x2000)];
        assert_eq!(unchanged(&mapping("r-xp", "1234", "0")), expected);
        assert_eq!(unchanged(&mapping("r--p", "1234", "0")), expected);
        for (rights, inode, own) in [
            ("r--p", "1234", "4"),
            ("rw-p", "1234", "0"),
            ("rwxp", "1234", "0"),
            ("r--s", "1234", "0"),
            ("r-xp", "0", "0"),
        ] {
            let other = mapping(rights, inode, own);
            assert_eq!(unchanged(&other), [], "{other}");
        }
        let both = [mapping("r--p", "1234", "4"), mapping("r-xp", "1234", "0")].concat();
        assert_eq!(unchanged(&both), expected);
    }

    #[test]
    fn unchanged_pages_leave_memory_and_the_program_goes_on() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("Pss_File:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = resident();
        release_memory();
        let after = resident();
        assert!(after < before, "{before} kB before and {after} kB after");
        assert_eq!(format!("{:?}", [1, 2].map(|one| one + 1)), "[2, 3]");
    }
}

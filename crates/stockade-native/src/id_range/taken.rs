//! The ids that the host assigns to users and groups.

use std::fs::File;
use std::io::{self, Read};

use super::IdRangeError;

/// Format: name, first id, count.
const RANGE_FILES: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// Format: name, password, id.
const ACCOUNT_FILES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// The most that is read of one file. A larger file is an error, because its unread part may assign
/// ids.
const MOST_BYTES: u64 = 8 << 20;

/// The initial buffer size: most of these files fit, so that one read suffices.
const USUAL_BYTES: usize = 8 << 10;

/// Assigned ids, as half-open ranges.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken(Vec<(u64, u64)>);

impl Taken {
    /// Reads the files of this host. A missing file assigns no ids.
    pub(super) fn read() -> Result<Taken, IdRangeError> {
        let (mut ranges, mut accounts) = (String::new(), String::new());
        for (paths, text) in [(RANGE_FILES, &mut ranges), (ACCOUNT_FILES, &mut accounts)] {
            for path in paths {
                append(path, text)
                    .map_err(|source| IdRangeError::Read { path: path.into(), source })?;
            }
        }
        Ok(Taken::parse(&ranges, &accounts))
    }

    /// Ignores lines that the host's own tools ignore too.
    pub(super) fn parse(ranges: &str, accounts: &str) -> Taken {
        let mut taken = Taken::default();
        for line in ranges.lines() {
            let fields: Vec<&str> = line.trim().split(':').collect();
            if let [_, first, count] = fields.as_slice()
                && let (Ok(first), Ok(count)) = (first.parse::<u32>(), count.parse::<u32>())
            {
                taken.0.push((first.into(), u64::from(first) + u64::from(count)));
            }
        }
        for line in accounts.lines() {
            if let Some(Ok(id)) = line.split(':').nth(2).map(str::parse::<u32>) {
                taken.0.push((id.into(), u64::from(id) + 1));
            }
        }
        taken
    }

    /// Whether any of `count` ids from `first` on is assigned.
    pub(super) fn overlaps(&self, first: u32, count: u32) -> bool {
        let (from, to) = (u64::from(first), u64::from(first) + u64::from(count));
        self.0.iter().any(|(start, end)| *start < to && from < *end)
    }
}

fn append(path: &str, text: &mut String) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // A name may have any encoding; the lossy conversion does not change the numbers.
    text.push_str(&String::from_utf8_lossy(&bytes));
    // The last line of a file may lack its newline.
    text.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_accounts_are_parsed_and_invalid_lines_ignored() {
        let ranges = "alice:100000:65536\n# a note\nbob:x:1\nmany:1:2:3\n\n 1000:70:10 \n";
        let accounts = "root:x:0:0:root:/root:/bin/sh\nodd::\nbob:x:2000:5:::\n";
        let found = Taken::parse(ranges, accounts);
        assert_eq!(found, Taken(vec![(100_000, 165_536), (70, 80), (0, 1), (2000, 2001)]));
    }

    #[test]
    fn touching_ranges_do_not_overlap_and_one_shared_id_does() {
        let taken = Taken::parse("a:100:10\n", "");
        let overlaps = [(90, 10), (90, 11), (109, 5), (110, 5), (0, 1000), (105, 1)]
            .map(|(first, count)| taken.overlaps(first, count));
        assert_eq!(overlaps, [false, true, true, false, true, true]);
    }

    #[test]
    fn highest_ids_do_not_overflow() {
        let taken = Taken::parse(&format!("a:{0}:{0}\n", u32::MAX), "");
        assert!(taken.overlaps(u32::MAX, u32::MAX));
    }
}

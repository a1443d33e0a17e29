//! Extended headers of POSIX archives.

use crate::Refusal;

/// The fields of an extended header, which apply to the next entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extended {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) target: Option<Vec<u8>>,
    pub(crate) bytes: Option<u64>,
    pub(crate) user: Option<u64>,
    pub(crate) group: Option<u64>,
    /// In whole seconds.
    pub(crate) modified: Option<u64>,
}

impl Extended {
    /// Reads records of the form `length key=value\n`, in which a value may have any bytes.
    pub(crate) fn read(mut records: &[u8]) -> Result<Extended, Refusal> {
        let mut extended = Extended::default();
        while !records.is_empty() {
            let (key, value, rest) = record(records).ok_or(Refusal::Damaged)?;
            records = rest;
            match key {
                b"path" => extended.path = Some(value.to_vec()),
                b"linkpath" => extended.target = Some(value.to_vec()),
                b"size" => extended.bytes = Some(number(value).ok_or(Refusal::Damaged)?),
                // The data of a sparse file is not its content.
                _ if key.starts_with(b"GNU.sparse.") => return Err(Refusal::Kind),
                b"uid" => extended.user = Some(number(value).ok_or(Refusal::Damaged)?),
                b"gid" => extended.group = Some(number(value).ok_or(Refusal::Damaged)?),
                b"mtime" => extended.modified = seconds(value),
                // Extended attributes, such as capabilities of a file, are not restored.
                _ => {}
            }
        }
        Ok(extended)
    }
}

/// The whole seconds of a time; `None` before 1970.
fn seconds(value: &[u8]) -> Option<u64> {
    number(value.split(|byte| *byte == b'.').next()?)
}

fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().take(12).position(|byte| *byte == b' ')?;
    let length = usize::try_from(number(&records[..space])?).ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    let pair = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    Some((&pair[..equals], &pair[equals + 1..], rest))
}

fn number(digits: &[u8]) -> Option<u64> {
    // `parse` would accept a sign.
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_with_any_bytes_in_their_values() {
        let read = Extended::read(b"12 path=a\nb\n20 size=1234567890\n8 x=y=z\n");
        let expected =
            Extended { path: Some(b"a\nb".to_vec()), bytes: Some(1_234_567_890), ..none() };
        assert_eq!(read, Err(Refusal::Damaged), "the second length is wrong");
        let read = Extended::read(b"12 path=a\nb\n19 size=1234567890\n8 x=y=z\n");
        assert_eq!(read, Ok(expected));
        assert_eq!(Extended::read(b"22 GNU.sparse.major=1\n"), Err(Refusal::Kind));
    }

    fn none() -> Extended {
        Extended::default()
    }

    #[test]
    fn owner_and_time_are_read_and_extended_attributes_are_not() {
        let read = Extended::read(
            b"13 uid=70000\n12 gid=1000\n24 mtime=1700000000.999\n31 SCHILY.xattr.security.x=abc\n",
        );
        let (user, group, modified) = (Some(70_000), Some(1000), Some(1_700_000_000));
        assert_eq!(read, Ok(Extended { user, group, modified, ..none() }));
        assert_eq!(Extended::read(b"12 mtime=-5\n"), Ok(none()));
        assert_eq!(Extended::read(b"9 uid=-5\n"), Err(Refusal::Damaged));
    }

    #[test]
    fn damaged_records_are_refused() {
        for damaged in [
            &b"path=a\n"[..],
            b"99 path=a\n",
            b"9 path=a",
            b"3 =\n9 path=a",
            b"-9 path=a\n",
            b"+9 path=a\n",
            b"0 path=a\n",
            b"2 \n",
            b"11 size=-1\n",
            b"27 size=18446744073709551616\n",
        ] {
            let name = String::from_utf8_lossy(damaged);
            assert_eq!(Extended::read(damaged), Err(Refusal::Damaged), "{name:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(0_u8.., 0..300)) {
            let _ = Extended::read(&bytes);
        }
    }
}

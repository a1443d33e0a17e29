//! Uncompressed archives of small files: zip, and tar in gzip.

/// One file of an archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) bytes: &'a [u8],
}

/// A zip archive. Its files must be shorter than 4 GiB in total.
pub(super) fn zip(files: &[File<'_>]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let offset = length(&archive);
        let mut entry = Vec::new();
        // Version 2.0, no flags, stored, midnight of the first day that zip can express.
        entry.extend([20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        entry.extend(checksum(file.bytes).to_le_bytes());
        entry.extend(length(file.bytes).to_le_bytes());
        entry.extend(length(file.bytes).to_le_bytes());
        entry.extend((file.name.len() as u16).to_le_bytes());
        entry.extend([0, 0]);
        archive.extend(*b"PK\x03\x04");
        archive.extend(&entry);
        archive.extend(file.name.as_bytes());
        archive.extend(file.bytes);
        // Made by Unix, so that the mode below is interpreted as one.
        directory.extend(*b"PK\x01\x02\x14\x03");
        directory.extend(&entry);
        directory.extend([0; 6]);
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(file.name.as_bytes());
    }
    let start = length(&archive);
    let count = (files.len() as u16).to_le_bytes();
    archive.extend(&directory);
    archive.extend(*b"PK\x05\x06\0\0\0\0");
    archive.extend(count);
    archive.extend(count);
    archive.extend(length(&directory).to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0, 0]);
    archive
}

/// A tar archive in gzip.
pub(super) fn tar_gz(files: &[File<'_>]) -> Vec<u8> {
    let mut archive = Vec::new();
    for file in files {
        archive.extend(tar_header(file));
        archive.extend(file.bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.extend([0; 1024]);
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut pieces = archive.chunks(0xffff).peekable();
    while let Some(piece) = pieces.next() {
        let size = piece.len() as u16;
        // Stored deflate blocks; the first bit marks the last one.
        packed.push(u8::from(pieces.peek().is_none()));
        packed.extend(size.to_le_bytes());
        packed.extend((!size).to_le_bytes());
        packed.extend(piece);
    }
    packed.extend(checksum(&archive).to_le_bytes());
    packed.extend(length(&archive).to_le_bytes());
    packed
}

fn tar_header(file: &File<'_>) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, file.name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", file.bytes.len()));
    put(136, "00000000000\0");
    // The checksum is computed with its own field filled with blanks.
    put(148, "        0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("archives of tests are small")
}

/// CRC-32 as in zip and gzip.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |mut sum: u32, byte: &u8| {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
        }
        sum
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    const FILES: [File<'_>; 2] =
        [File { name: "a.txt", bytes: b"first\n" }, File { name: "b/c.txt", bytes: b"second\n" }];

    /// What Python reads from an archive on its standard input.
    fn read_by_python(script: &str, archive: &[u8]) -> String {
        let mut python = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        python.stdin.take().unwrap().write_all(archive).unwrap();
        String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn checksum_matches_a_known_value() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn python_reads_the_zip() {
        let script = "import io,sys,zipfile\n\
                      z=zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))\n\
                      print(z.testzip(),[(n,z.read(n)) for n in z.namelist()])";
        let read = read_by_python(script, &zip(&FILES));
        assert_eq!(read, "None [('a.txt', b'first\\n'), ('b/c.txt', b'second\\n')]\n");
    }

    #[test]
    fn python_reads_a_tar_of_several_blocks() {
        let long = vec![b'x'; 200_000];
        let files = [FILES[0], File { name: "long", bytes: &long }];
        let script = "import io,sys,tarfile\n\
                      t=tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()))\n\
                      print([(m.name,m.size,m.mode) for m in t.getmembers()],t.extractfile('a.txt').read())";
        let read = read_by_python(script, &tar_gz(&files));
        assert_eq!(read, "[('a.txt', 6, 420), ('long', 200000, 420)] b'first\\n'\n");
    }
}

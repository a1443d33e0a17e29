//! The bytes of an operation, in chunks; see `stockade_wire::FileRequest`.

use std::io::{self, Read, Write};

use stockade_wire::MAX_CHUNK_BYTES;

/// The end of the chunks.
pub(crate) const END: [u8; 4] = [0; 4];

/// Reads chunks as one sequence of bytes. Their end is the end; an early end of the stream is an
/// error.
pub(super) struct ChunkReader<R> {
    source: R,
    /// How many bytes of the current chunk are left.
    left: usize,
    ended: bool,
}

impl<R: Read> ChunkReader<R> {
    pub(super) fn new(source: R) -> ChunkReader<R> {
        ChunkReader { source, left: 0, ended: false }
    }
}

impl<R: Read> Read for ChunkReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            let mut length = END;
            self.source.read_exact(&mut length)?;
            self.left = u32::from_le_bytes(length) as usize;
            self.ended = self.left == 0;
            if self.left > MAX_CHUNK_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let wanted = self.left.min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        match self.source.read(&mut buffer[..wanted])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.left -= read;
                Ok(read)
            }
        }
    }
}

/// Collects bytes into chunks.
pub(super) struct ChunkWriter<W> {
    target: W,
    /// The next chunk, after the room for its length.
    chunk: Vec<u8>,
}

impl<W: Write> ChunkWriter<W> {
    pub(super) fn new(target: W) -> ChunkWriter<W> {
        ChunkWriter { target, chunk: END.to_vec() }
    }

    /// Sends the end, and then a frame.
    pub(super) fn finish(mut self, frame: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.target.write_all(&[END.as_slice(), frame].concat())
    }
}

impl<W: Write> Write for ChunkWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_CHUNK_BYTES + END.len() - self.chunk.len();
        let taken = room.min(bytes.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == MAX_CHUNK_BYTES + END.len() {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let length = self.chunk.len() - END.len();
        if length > 0 {
            let length = u32::try_from(length).expect("a chunk is short");
            self.chunk[..END.len()].copy_from_slice(&length.to_le_bytes());
            self.target.write_all(&self.chunk)?;
            self.chunk.truncate(END.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_as_they_were_written() {
        for length in [0, 1, MAX_CHUNK_BYTES, MAX_CHUNK_BYTES + 1, 3 * MAX_CHUNK_BYTES] {
            let content: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut sent = Vec::new();
            let mut writer = ChunkWriter::new(&mut sent);
            writer.write_all(&content).unwrap();
            writer.finish(b"rest").unwrap();
            let mut source = sent.as_slice();
            let mut read = Vec::new();
            ChunkReader::new(&mut source).read_to_end(&mut read).unwrap();
            assert!(read == content, "of {length} bytes");
            assert_eq!(source, b"rest");
        }
    }

    #[test]
    fn early_end_and_long_chunk_are_errors() {
        let read = |bytes: &[u8]| ChunkReader::new(bytes).read_to_end(&mut Vec::new());
        assert_eq!(read(&[0; 4]).unwrap(), 0);
        for early in [&[0; 3][..], &[2, 0, 0, 0, 7], &[1, 0, 0, 0, 7]] {
            assert_eq!(read(early).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(read(&[1, 0, 1, 0, 7]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

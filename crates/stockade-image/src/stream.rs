//! Decompression, and streams with a limit.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::Refusal;

/// The compression that content begins with.
pub(crate) fn compression(content: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 4] = [
        (&[0x1f, 0x8b], GZIP),
        (&[0x28, 0xb5, 0x2f, 0xfd], ZSTD),
        (&[0xfd, b'7', b'z', b'X'], "xz"),
        (b"BZh", "bzip2"),
    ];
    MAGIC.iter().find(|(magic, _)| content.starts_with(magic)).map(|(_, name)| *name)
}

const GZIP: &str = "gzip";
const ZSTD: &str = "zstd";
/// The magic number of a zstd frame without content, except for its last four bits.
const SKIPPED_FRAME: u32 = 0x184d_2a50;

/// Content without its compression, which its first bytes name.
pub(crate) fn decompressed<'s>(
    source: impl Read + 's,
) -> io::Result<Result<Box<dyn Read + 's>, Refusal>> {
    let mut source = BufReader::with_capacity(64 << 10, source);
    let kind = compression(source.fill_buf()?);
    Ok(match kind {
        None => Ok(Box::new(source)),
        Some(GZIP) => Ok(Box::new(MultiGzDecoder::new(source))),
        Some(ZSTD) => Ok(Box::new(Zstd { state: Some(Frames::Between(source)) })),
        Some(kind) => Err(Refusal::Kind { kind: format!("the compression {kind}") }),
    })
}

/// All frames of a zstd stream: the decoder reads one.
struct Zstd<R: Read> {
    /// `None` after an error.
    state: Option<Frames<R>>,
}

/// The decoder of one frame, whose magic number was read already.
type Frame<R> = StreamingDecoder<Chain<Cursor<[u8; 4]>, R>, FrameDecoder>;

enum Frames<R: Read> {
    Between(R),
    Within(Box<Frame<R>>),
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state.take() {
                None => return Err(io::ErrorKind::InvalidData.into()),
                Some(Frames::Between(mut source)) => {
                    let is_end = source.fill_buf()?.is_empty();
                    if is_end {
                        self.state = Some(Frames::Between(source));
                        return Ok(0);
                    }
                    self.state = Some(frame(source)?);
                }
                Some(Frames::Within(mut decoder)) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 {
                        self.state = Some(Frames::Within(decoder));
                        return Ok(read);
                    }
                    let (_, source) = decoder.into_inner().into_inner();
                    self.state = Some(Frames::Between(source));
                }
            }
        }
    }
}

/// Begins a frame, or passes over one that has no content.
fn frame<R: BufRead>(mut source: R) -> io::Result<Frames<R>> {
    let mut magic = [0; 4];
    source.read_exact(&mut magic)?;
    if u32::from_le_bytes(magic) & 0xffff_fff0 == SKIPPED_FRAME {
        let mut length = [0; 4];
        source.read_exact(&mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        let skipped = io::copy(&mut (&mut source).take(length), &mut io::sink())?;
        return match skipped == length {
            true => Ok(Frames::Between(source)),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        };
    }
    let decoder = StreamingDecoder::new(Cursor::new(magic).chain(source));
    let decoder = decoder.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Frames::Within(Box::new(decoder)))
}

/// Fails when more than a number of bytes is read.
pub(crate) struct Limited<R> {
    source: R,
    left: u64,
}

impl<R: Read> Limited<R> {
    pub(crate) fn new(source: R, most: u64) -> Limited<R> {
        Limited { source, left: most }
    }

    /// How many bytes may still be read.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(io::ErrorKind::QuotaExceeded)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(content: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        decompressed(content)?.unwrap().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn every_member_and_frame_is_read() {
        assert_eq!(read(b"plain").unwrap(), b"plain");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"one").unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(read(&[gzip.clone(), gzip].concat()).unwrap(), b"oneone");
        let skipped = [&0x184d_2a51_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
        let large = vec![7; 1 << 20];
        let frames = [zstd(b"one"), skipped.clone(), zstd(&large)].concat();
        assert_eq!(read(&frames).unwrap(), [b"one".as_slice(), &large].concat());
        assert!(read(&[zstd(b"one"), skipped[..9].to_vec()].concat()).is_err());
        assert!(read(&[zstd(b"one"), b"rest".to_vec()].concat()).is_err());
    }

    #[test]
    fn other_compressions_are_refused_by_name() {
        let refused = decompressed(&b"BZh91AY"[..]).unwrap();
        let Err(Refusal::Kind { kind }) = refused.map(drop) else { panic!("it was read") };
        assert_eq!(kind, "the compression bzip2");
    }

    #[test]
    fn stream_ends_in_an_error_after_its_limit() {
        let mut bytes = Vec::new();
        assert!(Limited::new(&b"12345"[..], 5).read_to_end(&mut bytes).is_ok());
        let error = Limited::new(&b"123456"[..], 5).read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    }
}

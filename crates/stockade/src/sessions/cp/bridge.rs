//! Bytes between the runtime and a thread that packs or unpacks.

use std::io::{self, Read, Write};

use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How many pieces wait between the two.
const PIECES: usize = 8;
/// The size of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// A piece of bytes, the end if it is empty, or an error of the other side.
pub(super) type Piece = io::Result<Vec<u8>>;

pub(super) fn pieces() -> (Sender<Piece>, Receiver<Piece>) {
    channel(PIECES)
}

/// Reads pieces. An early end is an error.
pub(super) struct PieceReader {
    pub(super) pieces: Receiver<Piece>,
    rest: Vec<u8>,
    at: usize,
    ended: bool,
}

impl PieceReader {
    pub(super) fn new(pieces: Receiver<Piece>) -> PieceReader {
        PieceReader { pieces, rest: Vec::new(), at: 0, ended: false }
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.rest.len() && !self.ended {
            let early = || Err(io::ErrorKind::UnexpectedEof.into());
            self.rest = self.pieces.blocking_recv().unwrap_or_else(early)?;
            self.at = 0;
            self.ended = self.rest.is_empty();
        }
        let taken = buffer.len().min(self.rest.len() - self.at);
        buffer[..taken].copy_from_slice(&self.rest[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

/// Collects bytes into pieces; a receiver that is gone is a broken pipe.
pub(super) struct PieceWriter {
    pieces: Sender<Piece>,
    piece: Vec<u8>,
}

impl PieceWriter {
    pub(super) fn new(pieces: Sender<Piece>) -> PieceWriter {
        PieceWriter { pieces, piece: Vec::new() }
    }

    /// Sends the rest and the end.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.send(Vec::new())
    }

    fn send(&self, piece: Vec<u8>) -> io::Result<()> {
        self.pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.piece) {
            piece if piece.is_empty() => Ok(()),
            piece => self.send(piece),
        }
    }
}

//! One end of a relayed connection: its input and its output.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use stockade_provider::Duplex;
use stockade_splice::{OpenSplice, SpliceStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use crate::meter::Meter;
use crate::shared::{SpliceSlot, Wide};
use crate::splice::Splice;

/// The most bytes that are read and not yet forwarded.
pub(crate) const MAX_HELD_BYTES: usize = 64 * 1024;
/// The same for a busy connection after all decisions.
const WIDE_BYTES: usize = 512 * 1024;

/// A program inside, or a server outside.
pub(crate) struct Side {
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
}

impl Side {
    /// The program's end.
    pub(crate) fn inside(stream: Box<dyn Duplex>) -> Side {
        let splice = SpliceStream::opener(&*stream);
        let (reader, writer) = tokio::io::split(stream);
        Side {
            incoming: Incoming::new(Reader::Any(Box::new(reader)), None),
            outgoing: Outgoing { writer: Box::new(writer), meter: None, splice },
        }
    }

    /// The server's end, whose bytes count.
    pub(crate) fn outside(stream: TcpStream, meter: Arc<Meter>) -> Side {
        let (reader, writer) = stream.into_split();
        Side {
            incoming: Incoming::new(Reader::Server(reader), Some(Arc::clone(&meter))),
            outgoing: Outgoing { writer: Box::new(writer), meter: Some(meter), splice: None },
        }
    }
}

/// A side as one stream of bytes, those that were read before first.
pub(crate) struct SideStream {
    held: Vec<u8>,
    start: usize,
    reader: Reader,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Side {
    /// The end of a program or a server inside TLS. Counts the bytes that TLS carries, if there is
    /// a meter.
    pub(crate) fn within_tls<S>(stream: S, meter: Option<Arc<Meter>>) -> Side
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        Side {
            incoming: Incoming::new(Reader::Any(Box::new(reader)), meter.clone()),
            outgoing: Outgoing { writer: Box::new(writer), meter, splice: None },
        }
    }

    /// Joins both directions, without counting.
    pub(crate) fn into_stream(self) -> SideStream {
        let Incoming { reader, held, start, .. } = self.incoming;
        SideStream { held, start, reader, writer: self.outgoing.writer }
    }
}

impl AsyncRead for SideStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let here = &mut *self;
        if here.start < here.held.len() {
            let taken = buffer.remaining().min(here.held.len() - here.start);
            buffer.put_slice(&here.held[here.start..here.start + taken]);
            here.start += taken;
            return Poll::Ready(Ok(()));
        }
        match &mut here.reader {
            Reader::Server(reader) => Pin::new(reader).poll_read(context, buffer),
            Reader::Any(reader) => Pin::new(reader).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for SideStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}

/// The source of bytes.
enum Reader {
    Server(OwnedReadHalf),
    Any(Box<dyn AsyncRead + Send + Unpin>),
}

/// The input from one end; at most [`MAX_HELD_BYTES`] of it are buffered until it is only
/// forwarded.
pub(crate) struct Incoming {
    reader: Reader,
    held: Vec<u8>,
    start: usize,
    meter: Option<Arc<Meter>>,
    /// Whether the last read filled the buffer.
    was_full: bool,
    wide: Option<Wide>,
}

impl Incoming {
    fn new(reader: Reader, meter: Option<Arc<Meter>>) -> Incoming {
        Incoming { reader, held: Vec::new(), start: 0, meter, was_full: false, wide: None }
    }

    /// The bytes that were read and not yet used.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held[self.start..]
    }

    /// Marks the first bytes of the buffer as used.
    pub(crate) fn used(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.held.len());
        if self.start == self.held.len() {
            self.held.clear();
            self.start = 0;
        }
    }

    /// Reads more and returns how much; 0 is the end. The buffer must not be full.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.fill_within(MAX_HELD_BYTES).await
    }

    /// The same if nothing is buffered and input is only forwarded: a fast server is read in larger
    /// pieces, because each piece wakes every process on the way.
    pub(crate) async fn fill_to_pass(&mut self) -> io::Result<usize> {
        match &self.meter {
            Some(meter) if self.was_full && meter.budget().is_ample() => {
                self.wide = self.wide.take().or_else(|| meter.shared.widen());
            }
            _ => self.wide = None,
        }
        let most = if self.wide.is_some() { WIDE_BYTES } else { MAX_HELD_BYTES };
        if self.held.capacity() > most {
            self.held = Vec::new();
        }
        let read = self.fill_within(most).await?;
        self.was_full = read >= MAX_HELD_BYTES;
        Ok(read)
    }

    async fn fill_within(&mut self, most: usize) -> io::Result<usize> {
        if self.start > 0 {
            self.held.drain(..self.start);
            self.start = 0;
        }
        let room = most.saturating_sub(self.held.len());
        if room == 0 {
            return Err(io::Error::other("there is no room for more"));
        }
        self.held.reserve_exact(room);
        let held = &mut self.held;
        let read = match &mut self.reader {
            Reader::Server(server) => server.take(room as u64).read_buf(held).await?,
            Reader::Any(reader) => reader.take(room as u64).read_buf(held).await?,
        };
        if let Some(meter) = &self.meter {
            meter.count(&meter.received, read as u64).await?;
        }
        Ok(read)
    }

    /// The splice pipe to the program at the other end, for a server that sends much, unless too
    /// many connections have one. The buffer must be empty.
    pub(crate) async fn open_splice(
        &mut self,
        to: &mut Outgoing,
    ) -> io::Result<Option<(Splice, SpliceSlot)>> {
        let (Some(_), Some(meter), Some(_)) = (&self.wide, &self.meter, &to.splice) else {
            return Ok(None);
        };
        let Some(slot) = meter.shared.take_splice_slot() else { return Ok(None) };
        // A failed attempt to open it is not repeated.
        let Some(open) = to.splice.take() else { return Ok(None) };
        let Some((splice, sent)) = Splice::open(&open)? else { return Ok(None) };
        // Sends the reading end, as ancillary data of the next write.
        let _: usize = to.writer.write(&[]).await?;
        to.writer.flush().await?;
        Ok(sent.await.then_some((splice, slot)))
    }

    /// Forwards everything to the end through a splice pipe, and counts it.
    pub(crate) async fn pass_through(
        &mut self,
        (splice, _slot): (Splice, SpliceSlot),
    ) -> io::Result<()> {
        (self.wide, self.held) = (None, Vec::new());
        let (Reader::Server(server), Some(meter)) = (&self.reader, &self.meter) else {
            return Err(io::Error::other("only what a server sends goes through a splice pipe"));
        };
        loop {
            let most = if meter.budget().is_ample() { WIDE_BYTES } else { MAX_HELD_BYTES };
            let taken = splice.take(server.as_ref(), most).await?;
            if taken == 0 {
                return Ok(());
            }
            meter.count(&meter.received, taken as u64).await?;
            splice.pass(taken).await?;
        }
    }

    /// Whether nothing more has arrived, not even the end.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let has_come = tokio::select! {
            biased;
            _ = self.fill() => true,
            () = std::future::ready(()) => false,
        };
        // Received bytes may still wait for their share of the rate.
        !has_come && self.held().is_empty()
    }

    /// Reads until so many bytes are buffered; `false` if the input ends before.
    pub(crate) async fn fill_to(&mut self, bytes: usize) -> io::Result<bool> {
        while self.held().len() < bytes {
            if self.fill().await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The output to one end.
pub(crate) struct Outgoing {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    meter: Option<Arc<Meter>>,
    /// Opens the splice pipe, until that was tried.
    splice: Option<OpenSplice>,
}

impl Outgoing {
    /// Writes all of it now.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(meter) = &self.meter {
            meter.count(&meter.sent, bytes.len() as u64).await?;
        }
        self.writer.write_all(bytes).await?;
        self.writer.flush().await
    }

    /// Half-closes: nothing more will be written.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.writer.shutdown().await
    }
}

#[cfg(test)]
#[path = "side_tests.rs"]
pub(crate) mod tests;

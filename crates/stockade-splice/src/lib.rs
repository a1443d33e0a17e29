//! Splice pipes, shared by the socket transport of a wall on this machine and the copy loop of the
//! gate. Every other wall and gateway sees a plain byte stream.

mod pipe;
mod stream;

pub use pipe::pipe;
pub use stream::{OpenSplice, SplicePipe, SpliceStream};

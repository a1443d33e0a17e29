//! Splice pipes: what the socket transport of a wall on this machine and the copy loop of the gate
//! know of each other. Every other wall and gateway sees a stream of bytes.

mod pipe;
mod stream;

pub use pipe::pipe;
pub use stream::{OpenSplice, SplicePipe, SpliceStream};

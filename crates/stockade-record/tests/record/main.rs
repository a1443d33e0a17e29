//! Streams on a real file system: written, read, changed, cut and refused.

mod changes;
mod directories;
mod full;
mod properties;
mod sessions;
mod support;

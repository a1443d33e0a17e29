//! The cgroups of this host, put to the test.

mod counting;
mod killing;
mod limiting;
mod lives;
mod support;

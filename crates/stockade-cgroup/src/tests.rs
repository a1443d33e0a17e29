//! Tests on the cgroups of this host.

mod counting;
mod killing;
mod limiting;
mod lives;
mod support;

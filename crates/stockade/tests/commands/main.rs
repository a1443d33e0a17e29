//! `command_allowlist`, attacked through the command line. Every act is first shown to work without
//! the clause.

mod attacks;
mod gap;
mod lists;
mod support;

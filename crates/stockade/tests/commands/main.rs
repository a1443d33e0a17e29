//! Attacks on `command_allowlist` through the command line. Each test first proves that the act
//! works without the clause.

mod attacks;
mod gap;
mod lists;
mod support;

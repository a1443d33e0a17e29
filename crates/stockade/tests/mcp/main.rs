//! `stockade mcp`, end to end, as MCP clients use it.

mod conformance;
mod contexts;
mod ends;
mod files;
mod hostile;
mod libraries;
mod life;
mod narrowing;
mod packages;
mod state;
mod support;

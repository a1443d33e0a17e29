//! Tools, end to end: programs in real sandboxes call real commands, endpoints, servers and
//! closures of the host.

mod api;
mod examples;
mod failing;
mod hostile;
mod http;
mod languages;
mod leftovers;
mod limits;
mod lists;
mod many;
mod mcp;
mod mistakes;
mod schemas;
mod shop;
mod support;

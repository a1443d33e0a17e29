//! The managed wall against the double: what it sends, what it accepts, and what it leaves behind.

mod credentials;
mod faults;
mod files;
mod golden;
mod life;
mod support;
mod tools;

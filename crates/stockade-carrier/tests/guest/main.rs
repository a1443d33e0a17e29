//! The carried guest outside any wall, spoken with over a link.

mod ends;
mod hostile;
mod overhead;
mod starts;
mod streams;
mod support;

//! The name server inside: it gives each allowed name an address of its own and resolves nothing.

mod answer;
mod serve;
mod table;

pub(crate) use self::answer::{Reply, answer, read_question};
pub(crate) use self::serve::serve;
pub(crate) use self::table::NameTable;

//! The name server inside the sandbox: it gives each allowed name a synthetic address and resolves
//! nothing.

mod answer;
mod serve;
mod table;

pub(crate) use self::answer::{Reply, answer, read_question};
pub(crate) use self::serve::serve;
pub(crate) use self::table::NameTable;

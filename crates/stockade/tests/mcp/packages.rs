//! The interpreter with the packages that people use in contexts.

use crate::support::skipped;

#[path = "../with-packages/environment.rs"]
mod environment;

/// Its path; `None` if the packages cannot be installed here, which is reported.
pub(crate) fn python() -> Option<String> {
    match environment::environment() {
        Ok(folder) => Some(folder.join("bin/python3").to_str()?.to_owned()),
        Err(why) => {
            skipped("clients", why);
            None
        }
    }
}

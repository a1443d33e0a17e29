//! The store of checkpoints of this user.

use std::os::unix::ffi::OsStrExt;

use stockade_api::{PathBytes, StoreParams};
use stockade_provider::chain;
use stockade_store::{Reference, Store, StoreError, store_directory};

use crate::Problem;

/// The quota in megabytes if none is set.
const QUOTA_MB: u64 = 10 << 10;

/// The error for a store that cannot be used.
pub(crate) fn problem(error: &StoreError) -> Problem {
    Problem::new(chain(error), error.remedy())
}

/// The store.
pub(crate) fn open() -> Result<Store, Problem> {
    let directory = store_directory(|name| std::env::var_os(name)).ok_or_else(|| {
        let message = "there is no directory for checkpoints: HOME is not set";
        Problem::new(message, "set HOME, or name one in STOCKADE_STORE")
    })?;
    let store = Store::open(&directory).map_err(|error| problem(&error))?;
    Ok(store.with_quota(quota()?))
}

/// The same for the supervisor of a session.
pub(crate) fn params() -> Result<StoreParams, Problem> {
    let store = open()?;
    let directory = store.directory().as_os_str().as_bytes().to_vec();
    let directory = PathBytes::try_from(directory)
        .map_err(|error| Problem::new(error.to_string(), "name a shorter one in STOCKADE_STORE"))?;
    Ok(StoreParams { directory, quota: quota()? })
}

/// A checkpoint by `NAME` in a session, or by `SESSION/NAME`.
pub(crate) fn reference(session: &str, text: &str) -> Result<Reference, Problem> {
    Reference::within(session, text).map_err(|error| problem(&error))
}

fn quota() -> Result<u64, Problem> {
    let Some(text) = std::env::var_os("STOCKADE_STORE_MB") else { return Ok(QUOTA_MB << 20) };
    let number = text.to_str().and_then(|text| text.parse::<u64>().ok());
    number.and_then(|number| number.checked_mul(1 << 20)).ok_or_else(|| {
        let message = "STOCKADE_STORE_MB is not a number of megabytes";
        Problem::new(message, "set it to a whole number, such as 20480")
    })
}

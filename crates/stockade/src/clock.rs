//! The host's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use stockade_policy::Moment;

use crate::Problem;

/// The time that rules with a time are evaluated at.
pub(crate) fn now() -> anyhow::Result<Moment> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| Problem::new("the clock is before 1970", "set it"))?;
    Ok(Moment { unix_seconds: i64::try_from(since.as_secs())? })
}

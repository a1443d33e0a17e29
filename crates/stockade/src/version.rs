//! `stockade version`.

use serde_json::json;
use stockade_carrier::check_guest;

use crate::Problem;
use crate::render::{self, Output};

pub(crate) fn run(output: Output) -> anyhow::Result<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let guest = check_guest().map_err(|error| {
        let cause = anyhow::Error::new(error);
        let message = format!("the guest carried inside this binary does not answer: {cause:#}");
        Problem::new(
            message,
            "see that /proc is mounted and memory files may be executed; else install again",
        )
    })?;
    match output {
        Output::Json => render::json(&json!({
            "version": version,
            "guest": {
                "version": guest.version,
                "bytes": guest.size_bytes,
                "static": guest.is_static,
            },
        }))?,
        Output::Text => render::data(&format!(
            "stockade {version}\nguest {} ({} bytes, static, answered its handshake)\n",
            guest.version, guest.size_bytes
        ))?,
    }
    Ok(0)
}

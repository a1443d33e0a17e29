//! The micro-VM wall, if it is built in.

use std::sync::Arc;

use serde_json::Value;
use stockade_native::HostProcess;
use stockade_provider::Provider;

/// The variable that lets the WebAssembly wall stand in for this wall, for development: `wasm`.
pub const WALL_VARIABLE: &str = "STOCKADE_HYPERLIGHT_WALL";

/// Micro-VMs whose workers are in sandboxes of the native wall with `/dev/kvm`.
#[cfg(feature = "hyperlight")]
pub(crate) fn provider(user: HostProcess) -> Option<Arc<dyn Provider>> {
    Some(Arc::new(micro_vms(user)))
}

#[cfg(feature = "hyperlight")]
fn micro_vms(user: HostProcess) -> stockade_hyperlight::HyperlightProvider {
    use stockade_hyperlight::{HyperlightProvider, KVM};
    use stockade_native::{NativeProvider, Surroundings};

    let jail = NativeProvider::new(user, Surroundings::default()).with_device(KVM);
    HyperlightProvider::new(Arc::new(jail))
}

/// The micro-VM wall is not built in.
#[cfg(not(feature = "hyperlight"))]
pub(crate) fn provider(_: HostProcess) -> Option<Arc<dyn Provider>> {
    None
}

/// The wall's worker on this host, for display: names and values, and the same as data; `None` if
/// the wall is not built in. Where machines run, one is started and measured.
#[cfg(feature = "hyperlight")]
pub async fn hyperlight_look(is_usable: bool) -> Option<(Vec<(String, String)>, Value)> {
    let look = stockade_hyperlight::look();
    let mut lines = vec![("hyperlight worker".to_owned(), look.path.display().to_string())];
    lines.extend(look.unusable.iter().map(|why| (String::new(), why.clone())));
    lines.extend(look.remedy.iter().map(|remedy| (String::new(), format!("= {remedy}"))));
    let mut data = serde_json::json!(look);
    if is_usable {
        let (line, times) = measured(micro_vms(HostProcess::Continues).measure().await);
        lines.push((String::new(), line));
        data["times_us"] = times;
    }
    Some((lines, data))
}

/// What a machine took, in words and as data.
#[cfg(feature = "hyperlight")]
fn measured(
    times: Result<Option<stockade_hyperlight::MachineTimes>, stockade_provider::Error>,
) -> (String, Value) {
    use std::time::Duration;

    let times = match times {
        Ok(Some(times)) => times,
        Ok(None) => {
            let line = "the first use compiles the component for it, which takes about a minute";
            return (line.to_owned(), Value::Null);
        }
        Err(error) => {
            let line = format!("no machine was measured: {}", stockade_provider::chain(&error));
            return (line, Value::Null);
        }
    };
    let parts = [
        ("start", Some(times.start)),
        ("load", Some(times.load)),
        ("snapshot", Some(times.snapshot)),
        ("restore", times.restore),
    ];
    let parts = parts.into_iter().filter_map(|(name, time)| Some((name, time?)));
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let words: Vec<String> =
        parts.clone().map(|(name, time)| format!("{name} {:.1} ms", milliseconds(time))).collect();
    let data = parts.map(|(name, time)| (name.to_owned(), serde_json::json!(time.as_micros())));
    (format!("measured now: {}", words.join(", ")), data.collect())
}

/// The micro-VM wall is not built in.
#[cfg(not(feature = "hyperlight"))]
pub async fn hyperlight_look(_: bool) -> Option<(Vec<(String, String)>, Value)> {
    None
}

#[cfg(all(test, feature = "hyperlight"))]
mod tests {
    use std::time::Duration;

    use stockade_hyperlight::MachineTimes;

    use super::*;

    #[test]
    fn times_of_a_machine_are_shown_in_milliseconds_and_kept_in_microseconds() {
        let [start, load, snapshot] = [1250, 35_000, 800].map(Duration::from_micros);
        let times = MachineTimes { start, load, snapshot, restore: Some(start) };
        let (line, data) = measured(Ok(Some(times)));
        let expected = "measured now: start 1.2 ms, load 35.0 ms, snapshot 0.8 ms, restore 1.2 ms";
        assert_eq!(line, expected);
        let expected =
            serde_json::json!({"start": 1250, "load": 35_000, "snapshot": 800, "restore": 1250});
        assert_eq!(data, expected);
    }
}

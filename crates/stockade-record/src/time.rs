//! Timestamps of events.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time of the host's clock, in microseconds, written as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(i64);

impl Time {
    /// Now.
    pub fn now() -> Time {
        Time(Timestamp::now().as_microsecond())
    }

    /// Microseconds since 1970.
    pub fn unix_microseconds(self) -> i64 {
        self.0
    }

    /// The time, if RFC 3339 can represent it.
    pub fn from_unix_microseconds(microseconds: i64) -> Option<Time> {
        Timestamp::from_microsecond(microseconds).ok().map(|_| Time(microseconds))
    }

    /// The time for calendar arithmetic.
    fn timestamp(self) -> Timestamp {
        Timestamp::from_microsecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// The time as digits that sort chronologically: `20260728-101112-345678`.
    pub(crate) fn digits(self) -> String {
        self.timestamp().strftime("%Y%m%d-%H%M%S-%6f").to_string()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.timestamp())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment: Timestamp = text.parse().map_err(de::Error::custom)?;
        let time = Time(moment.as_microsecond());
        // Other spellings of the same time would be different bytes with the same meaning.
        match time.to_string() == text {
            true => Ok(time),
            false => Err(de::Error::custom("a time is written in UTC with six decimals")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_written_in_utc_with_six_decimals_and_other_spellings_are_refused() {
        let time = Time::from_unix_microseconds(1_785_233_472_000_045).unwrap();
        assert_eq!(time.to_string(), "2026-07-28T10:11:12.000045Z");
        assert_eq!(time.digits(), "20260728-101112-000045");
        let read = |text: &str| serde_json::from_str::<Time>(&format!("\"{text}\"")).ok();
        assert_eq!(read("2026-07-28T10:11:12.000045Z"), Some(time));
        for other in [
            "2026-07-28T10:11:12Z",
            "2026-07-28t10:11:12.000045z",
            "2026-07-28T12:11:12.000045+02:00",
            "2026-07-28T10:11:12.0000450Z",
            "yesterday",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}

//! Times and days in rules; the caller reads the clock.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// A point in time, in seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub unix_seconds: i64,
}

/// A time of day, in minutes after midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    /// Parses `HH:MM`.
    pub fn parse(text: &str) -> Option<TimeOfDay> {
        let (hours, minutes) = text.split_once(':')?;
        let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        if !two_digits(hours) || !two_digits(minutes) {
            return None;
        }
        let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
        (hours < 24 && minutes < 60).then_some(TimeOfDay(hours * 60 + minutes))
    }
}

impl std::fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// When a rule applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeCondition {
    /// From the first time, up to but not including the second; `None` is the whole day. A window
    /// that ends before it starts continues past midnight.
    pub window: Option<(TimeOfDay, TimeOfDay)>,
    /// ISO weekdays, 1 is Monday; empty is every day.
    pub days: Vec<u8>,
    /// The time zone of the clock.
    pub zone: Zone,
}

/// A time zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
}

/// The clock's time is out of the range of dates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the clock's time cannot be placed in the zone `{zone}`")]
pub struct ClockError {
    zone: String,
}

impl Zone {
    /// Looks up a zone by name in the built-in database.
    pub fn parse(name: &str) -> Option<Zone> {
        let found = lookup(name)?;
        if found == TimeZone::UTC {
            return Some(Zone::utc());
        }
        Some(Zone { name: found.iana_name()?.to_owned() })
    }

    /// Coordinated Universal Time.
    pub fn utc() -> Zone {
        Zone { name: "UTC".to_owned() }
    }

    /// The zone's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl TimeCondition {
    /// Whether the rule applies at this moment.
    pub fn holds(&self, now: Moment) -> Result<bool, ClockError> {
        let unplaced = || ClockError { zone: self.zone.name.clone() };
        let zone = lookup(&self.zone.name).ok_or_else(unplaced)?;
        let stamp = jiff::Timestamp::from_second(now.unix_seconds).map_err(|_| unplaced())?;
        let local = stamp.to_zoned(zone);
        let day = local.weekday().to_monday_one_offset();
        let minute =
            u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
        let day_fits = self.days.is_empty() || self.days.contains(&day.unsigned_abs());
        let time_fits = self.window.is_none_or(|(start, end)| {
            if start <= end {
                (start.0..end.0).contains(&minute)
            } else {
                minute >= start.0 || minute < end.0
            }
        });
        Ok(day_fits && time_fits)
    }
}

fn lookup(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    TimeZoneDatabase::bundled().get(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: &str, end: &str, zone: &str) -> TimeCondition {
        let window = Some((TimeOfDay::parse(start).unwrap(), TimeOfDay::parse(end).unwrap()));
        TimeCondition { window, days: Vec::new(), zone: Zone::parse(zone).unwrap() }
    }

    // 2026-03-08 07:30 UTC is a Sunday, 03:30 in New York just after clocks went forward.
    const SUNDAY: Moment = Moment { unix_seconds: 1_772_955_000 };

    #[test]
    fn zones_follow_their_own_clock() {
        assert_eq!(window("07:00", "08:00", "UTC").holds(SUNDAY), Ok(true));
        assert_eq!(window("03:00", "04:00", "America/New_York").holds(SUNDAY), Ok(true));
        assert_eq!(window("02:00", "03:00", "America/New_York").holds(SUNDAY), Ok(false));
    }

    #[test]
    fn the_end_of_a_window_is_outside_it() {
        assert_eq!(window("07:00", "07:30", "UTC").holds(SUNDAY), Ok(false));
        assert_eq!(window("07:30", "07:31", "UTC").holds(SUNDAY), Ok(true));
        assert_eq!(window("07:30", "07:30", "UTC").holds(SUNDAY), Ok(false));
    }

    #[test]
    fn a_window_may_go_past_midnight() {
        assert_eq!(window("22:00", "08:00", "UTC").holds(SUNDAY), Ok(true));
        assert_eq!(window("22:00", "07:00", "UTC").holds(SUNDAY), Ok(false));
    }

    #[test]
    fn days_are_counted_from_monday() {
        let days =
            |days: &[u8]| TimeCondition { window: None, days: days.to_vec(), zone: Zone::utc() };
        assert_eq!(days(&[7]).holds(SUNDAY), Ok(true));
        assert_eq!(days(&[1, 2, 3, 4, 5, 6]).holds(SUNDAY), Ok(false));
    }

    #[test]
    fn times_are_hours_and_minutes_only() {
        for text in ["24:00", "9:00", "09:60", "0900", "09:00:00", "-1:00", "+9:00", "", ":"] {
            assert_eq!(TimeOfDay::parse(text), None, "{text}");
        }
        assert_eq!(TimeOfDay::parse("23:59").unwrap().to_string(), "23:59");
    }

    #[test]
    fn a_moment_without_a_date_is_an_error_not_a_match() {
        let far = Moment { unix_seconds: i64::MAX };
        assert!(window("00:00", "23:59", "UTC").holds(far).is_err());
    }
}

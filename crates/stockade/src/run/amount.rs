//! Amounts as users write them on a command line.

/// An amount: the text, and its value in the unit of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    /// As it was written.
    pub(crate) written: String,
    /// Bytes, milliseconds, thousandths of a cpu, or a count.
    pub(crate) value: u64,
}

/// An invalid amount: what is expected, and an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AmountError {
    what: &'static str,
    /// A valid amount.
    pub(crate) example: &'static str,
}

impl std::fmt::Display for AmountError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for AmountError {}

/// Parses a size in bytes: a number with k, m or g, in powers of 1024.
pub(crate) fn size(text: &str) -> Result<Amount, AmountError> {
    let units = [("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];
    let lower = text.to_ascii_lowercase();
    let bare = lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
    let scaled = units.iter().find_map(|(unit, scale)| Some((bare.strip_suffix(unit)?, *scale)));
    let value = scaled.and_then(|(number, scale)| decimal(number, scale));
    amount(text, value, "a size is a number with k, m or g", "512m")
}

/// Parses a time in milliseconds: a number with ms, s, m or h.
pub(crate) fn time(text: &str) -> Result<Amount, AmountError> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
    let scaled = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let value = scaled.and_then(|(number, scale)| decimal(number, scale));
    amount(text, value, "a time is a number with ms, s, m or h", "30s")
}

/// Parses an age in seconds: a number with s, m, h, d or w.
pub(crate) fn age(text: &str) -> Result<u64, AmountError> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];
    let scaled = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let value = scaled.and_then(|(number, scale)| decimal(number, scale));
    value.ok_or(AmountError { what: "an age is a number with s, m, h, d or w", example: "30d" })
}

/// Parses a number of cpus in thousandths.
pub(crate) fn cpus(text: &str) -> Result<Amount, AmountError> {
    amount(text, decimal(text, 1000), "this is a number with at most three decimals", "0.5")
}

/// Parses a count.
pub(crate) fn count(text: &str) -> Result<Amount, AmountError> {
    amount(text, decimal(text, 1), "this is a whole number", "64")
}

fn amount(
    text: &str,
    value: Option<u64>,
    what: &'static str,
    example: &'static str,
) -> Result<Amount, AmountError> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    match value {
        Some(value) => Ok(Amount { written: text.to_owned(), value }),
        // A plain number with more digits than `decimal` reads.
        None if is_number && digits.len() > MAX_DIGITS => {
            Err(AmountError { what: "the number is too large", example })
        }
        None => Err(AmountError { what, example }),
    }
}

/// The most digits of a number.
const MAX_DIGITS: usize = 9;

/// A decimal number times a scale, if the result is a whole number within a plausible range.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| {
        let plain = !part.is_empty()
            && part.len() <= MAX_DIGITS
            && part.bytes().all(|b| b.is_ascii_digit());
        if plain { part.parse::<u64>().ok() } else { None }
    };
    let places = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = digits(fraction)?.checked_mul(scale)?;
    if parts % places != 0 {
        return None;
    }
    digits(whole)?.checked_mul(scale)?.checked_add(parts / places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_powers_of_1024_and_need_a_unit() {
        let bytes = |text| size(text).map(|amount| amount.value);
        for (text, value) in [
            ("512m", 512 << 20),
            ("1.5G", 3 << 29),
            ("64KiB", 64 << 10),
            ("2mb", 2 << 20),
            ("0k", 0),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for text in
            ["512", "", "m", "-1m", "1e3m", "1 m", "1mm", "0.0001k", "99999999999g", "b", "1b"]
        {
            assert_eq!(bytes(text).unwrap_err().example, "512m", "{text}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        let milliseconds = |text| time(text).map(|amount| amount.value);
        for (text, value) in
            [("250ms", 250), ("30s", 30_000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(milliseconds(text), Ok(value), "{text}");
        }
        for text in ["30", "s", "0.5ms", "-1s", "1d", "1s ", "１s"] {
            assert_eq!(milliseconds(text).unwrap_err().example, "30s", "{text}");
        }
    }

    #[test]
    fn number_with_too_many_digits_is_called_too_large() {
        for error in
            [time("9999999999h"), size("99999999999g"), count("9999999999"), cpus("9999999999")]
        {
            assert_eq!(error.unwrap_err().to_string(), "the number is too large");
        }
    }

    #[test]
    fn cpus_allow_three_decimals_and_counts_must_be_whole() {
        assert_eq!(cpus("0.5").map(|amount| amount.value), Ok(500));
        assert_eq!(cpus("2").map(|amount| amount.value), Ok(2000));
        assert!(cpus("0.0005").is_err() && cpus("1,5").is_err());
        assert_eq!(count("64").map(|amount| amount.value), Ok(64));
        assert!(count("1.5").is_err() && count("many").is_err());
    }
}

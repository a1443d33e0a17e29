//! Tables for people.

/// Columns as wide as their widest cell, two spaces apart. The last is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match column + 1 == row.len() {
            true => cell.clone(),
            false => format!("{cell:<width$}", width = widths[column]),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A time span in its two largest units.
pub(crate) fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// How long ago a time was, in seconds since 1970.
pub(crate) fn since(time: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    age(now.map_or(0, |now| now.as_secs()).saturating_sub(time))
}

/// A size in its largest fitting binary unit.
pub(crate) fn size(bytes: u64) -> String {
    let scaled = |shift: u32| bytes / (1 << shift);
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", scaled(10)),
        0x10_0000..0x4000_0000 => format!("{} MiB", scaled(20)),
        _ => format!("{} GiB", scaled(30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            table(&[row(["NAME", "STATE"]), row(["a", "running"])]),
            "NAME  STATE\na     running\n"
        );
    }

    #[test]
    fn times_and_sizes_are_short() {
        let ages = [5, 65, 3_660, 90_000].map(age);
        assert_eq!(ages, ["5s", "1m 5s", "1h 1m", "1d 1h"]);
        let sizes = [7, 2048, 3 << 20, 5 << 30].map(size);
        assert_eq!(sizes, ["7 B", "2 KiB", "3 MiB", "5 GiB"]);
    }
}

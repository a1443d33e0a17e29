//! The report as text.

use super::report::{BUSY, Report, Row};

pub(super) fn text(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "stockade {} on Linux {}, {}, {} processors, load {:.2}; {} rounds\n",
        report.version,
        machine.kernel,
        machine.architecture,
        machine.processors,
        machine.load,
        report.rounds
    );
    if machine.is_busy() {
        text.push_str(&format!("{BUSY}\n"));
    }
    for row in &report.rows {
        text.push_str(&of_row(row));
    }
    for missing in &report.not_measured {
        text.push_str(&format!(
            "\n{}: not measured: {}\n  = {}\n",
            missing.row, missing.reason, missing.remedy
        ));
    }
    if !report.absent_peers.is_empty() {
        text.push_str("\nPeers that are not here:\n");
    }
    for absent in &report.absent_peers {
        text.push_str(&format!("  {:<11} {} ({})\n", absent.peer, absent.reason, absent.remedy));
    }
    text
}

fn of_row(row: &Row) -> String {
    let verdict = match row.within {
        Some(true) => "within",
        Some(false) => "NOT within",
        None => "not compared",
    };
    let mut text =
        format!("\n{}: {}\n  {}: {verdict}\n", row.row, row.what, row.bound.text(row.unit));
    for pass in &row.passes {
        let apart = match pass.apart_ms {
            0 => "back to back".to_owned(),
            apart => format!("{apart} ms apart"),
        };
        let head = format!("{apart}, {}", row.unit);
        text.push_str(&format!(
            "  {head:<26} {:>9} {:>9} {:>9} {:>9}  {}\n",
            "median", "quarter", "three q.", "least", "ours ÷ this"
        ));
        for (index, side) in pass.sides.iter().enumerate() {
            let ratio = side.comparison(index == 0);
            text.push_str(&format!(
                "    {:<24} {:>9.2} {:>9.2} {:>9.2} {:>9.2}  {ratio:>11}",
                side.name, side.median, side.first_quartile, side.third_quartile, side.least
            ));
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }
    text
}

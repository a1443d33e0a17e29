//! The report as a self-contained page: no script, nothing fetched.

use std::fmt::Write as _;

use super::report::{BUSY, Pass, Report, Row};
use super::samples::Samples;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886;--ours:#2266cc;--other:#888}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin-bottom:0}h2{font-size:1.15rem;margin:2.2rem 0 .2rem}
p{margin:.2rem 0}.quiet{opacity:.75}.bad{color:#c22;font-weight:600}.good{color:#187a3c;font-weight:600}
@media(prefers-color-scheme:dark){:root{--ours:#7fb2ff}.bad{color:#ff7b7b}.good{color:#6fd28f}}
table{border-collapse:collapse;width:100%;margin:.6rem 0;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.15rem .5rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto;display:block}
svg text{font:13px system-ui,sans-serif;fill:currentColor}
details{margin:.3rem 0}code{font-size:.85em;overflow-wrap:anywhere}";

/// Sizes of a chart, in SVG units.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 70.0;
const LANE: f64 = 34.0;

pub(super) fn page(report: &Report) -> String {
    let machine = &report.machine;
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>stockade bench</title><style>{STYLE}</style>\
         <h1>What a sandbox costs</h1>\
         <p class=\"quiet\">stockade {}, Linux {}, {}, {} processors, load {:.2}, {} rounds of each side, in turns</p>",
        report.version,
        escaped(&machine.kernel),
        machine.architecture,
        machine.processors,
        machine.load,
        report.rounds
    );
    if machine.is_busy() {
        add(&mut page, format_args!("<p class=\"bad\">{BUSY}</p>"));
    }
    for row in &report.rows {
        add_row(&mut page, row);
    }
    for missing in &report.not_measured {
        let (reason, remedy) = (prose(&missing.reason), prose(missing.remedy));
        add(
            &mut page,
            format_args!(
                "<h2>{}</h2><p class=\"bad\">not measured: {reason}</p><p>{remedy}</p>",
                missing.row
            ),
        );
    }
    if !report.absent_peers.is_empty() {
        page.push_str("<h2>Peers that are not here</h2>");
    }
    for absent in &report.absent_peers {
        let (reason, remedy) = (prose(&absent.reason), prose(&absent.remedy));
        add(&mut page, format_args!("<p>{}: {reason} ({remedy})</p>", absent.peer));
    }
    page.push_str("</html>\n");
    page
}

fn add_row(page: &mut String, row: &Row) {
    let (class, verdict) = match row.within {
        Some(true) => ("good", "within"),
        Some(false) => ("bad", "not within"),
        None => ("quiet", "not compared"),
    };
    add(
        page,
        format_args!(
            "<h2>{}</h2><p>{}</p><p>{}: <span class=\"{class}\">{verdict}</span></p>",
            row.row,
            prose(row.what),
            escaped(&row.bound.text(row.unit))
        ),
    );
    for pass in &row.passes {
        let apart = match pass.apart_ms {
            0 => "back to back".to_owned(),
            apart => format!("{apart} ms apart"),
        };
        add(page, format_args!("<p class=\"quiet\">{apart}, {}</p>", row.unit));
        add_chart(page, pass, row.unit);
        add_table(page, pass);
    }
}

/// Adds a chart with one row per side: a dot per round, a bar over the interquartile range, a line
/// at the median.
fn add_chart(page: &mut String, pass: &Pass, unit: &str) {
    let scale = Scale::of(pass);
    let height = LANE * pass.sides.len() as f64 + 26.0;
    add(
        page,
        format_args!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"every round of each side\">"
        ),
    );
    for tick in 0..=4 {
        let value = scale.end * f64::from(tick) / 4.0;
        let (at, bottom, text) = (scale.x(value), height - 20.0, height - 5.0);
        add(
            page,
            format_args!(
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{bottom}\" \
                 stroke=\"var(--line)\"/><text x=\"{at:.1}\" y=\"{text:.1}\" \
                 text-anchor=\"middle\">{value:.1} {unit}</text>"
            ),
        );
    }
    for (lane, side) in pass.sides.iter().enumerate() {
        add_lane(page, &scale, lane, side);
    }
    page.push_str("</svg>");
}

fn add_lane(page: &mut String, scale: &Scale, lane: usize, side: &Samples) {
    let middle = LANE * (lane as f64 + 0.5);
    let colour = if lane == 0 { "var(--ours)" } else { "var(--other)" };
    let (quarter, three) = (scale.x(side.first_quartile), scale.x(side.third_quartile));
    let (median, width) = (scale.x(side.median), (three - quarter).max(1.0));
    let (top, bottom, text) = (middle - 9.0, middle + 9.0, middle + 5.0);
    let name = escaped(&side.name);
    add(
        page,
        format_args!(
            "<text x=\"0\" y=\"{text:.1}\">{name}</text>\
             <rect x=\"{quarter:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"18\" \
             fill=\"{colour}\" opacity=\".3\"/>\
             <line x1=\"{median:.1}\" x2=\"{median:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" \
             stroke=\"{colour}\" stroke-width=\"3\"/>"
        ),
    );
    for (round, sample) in side.samples.iter().enumerate() {
        let (x, y) = (scale.x(*sample), middle + (round % 7) as f64 * 2.0 - 6.0);
        add(
            page,
            format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\" fill=\"{colour}\"/>"),
        );
    }
}

fn add_table(page: &mut String, pass: &Pass) {
    page.push_str(
        "<table><tr><th>side<th>median<th>quarter<th>three quarters<th>least<th>most\
         <th>ours ÷ this</tr>",
    );
    for (index, side) in pass.sides.iter().enumerate() {
        let ratio = side.comparison(index == 0);
        let name = escaped(&side.name);
        let numbers =
            [side.median, side.first_quartile, side.third_quartile, side.least, side.most];
        let cells: String = numbers.iter().map(|number| format!("<td>{number:.2}")).collect();
        add(page, format_args!("<tr><td>{name}{cells}<td>{ratio}</tr>"));
    }
    page.push_str("</table><details><summary>What was run</summary>");
    for side in &pass.sides {
        let (name, command) = (escaped(&side.name), escaped(&side.command));
        add(page, format_args!("<p>{name}: <code>{command}</code></p>"));
    }
    page.push_str("</details>");
}

/// Maps a value to a position on the chart.
struct Scale {
    /// The value at the right edge. Larger values are drawn at the edge.
    end: f64,
}

impl Scale {
    /// Ends a little above the largest third quartile: outliers would compress the other points.
    fn of(pass: &Pass) -> Scale {
        let largest = |of: fn(&Samples) -> f64| pass.sides.iter().map(of).fold(0.0, f64::max);
        let end = largest(|side| side.third_quartile * 1.6).min(largest(|side| side.most) * 1.05);
        Scale { end: if end > 0.0 { end } else { 1.0 } }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value / self.end).min(1.0) * (WIDTH - LEFT - RIGHT)
    }
}

fn add(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = page.write_fmt(text);
}

/// A sentence as HTML, with text between backticks set as code.
fn prose(text: &str) -> String {
    let safe = escaped(text);
    let mut parts = safe.split('`');
    let mut html = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => html.push_str(&format!("<code>{code}</code>{after}")),
            // A backtick without a partner stays literal.
            None => html.push_str(&format!("`{code}")),
        }
    }
    html
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::report::{Bound, Machine};
    use super::*;

    #[test]
    fn code_in_a_sentence_has_no_literal_backticks() {
        assert_eq!(prose("run `a < b`, then"), "run <code>a &lt; b</code>, then");
        assert_eq!(prose("`x`"), "<code>x</code>");
        assert_eq!(prose("a ` b"), "a ` b");
    }

    #[test]
    fn page_of_a_busy_machine_has_a_warning() {
        let machine = |load| Machine {
            kernel: "6.1".into(),
            architecture: "x86_64",
            processors: 2,
            load,
            user: 0,
        };
        let page = |load| {
            page(&Report {
                version: "0",
                machine: machine(load),
                rounds: 3,
                rows: Vec::new(),
                not_measured: Vec::new(),
                absent_peers: Vec::new(),
            })
        };
        assert!(page(1.1).contains(BUSY));
        assert!(!page(0.9).contains(BUSY));
    }

    #[test]
    fn page_is_self_contained_and_escapes_markup() {
        let side = |name: &str| Samples::new(name.into(), "<b>'&\"".into(), vec![1.0, 2.0, 3.0]);
        let pass = Pass { apart_ms: 0, sides: vec![side("stockade"), side("<script>")] };
        let bound = Bound::Median { most: 5.0 };
        let machine = Machine {
            kernel: "6.1".into(),
            architecture: "x86_64",
            processors: 2,
            load: 0.0,
            user: 0,
        };
        let page = page(&Report {
            version: "0",
            machine,
            rounds: 3,
            rows: vec![Row::new(("run", "what & why"), "ms", bound, vec![pass])],
            not_measured: Vec::new(),
            absent_peers: Vec::new(),
        });
        for expected in ["&lt;script&gt;", "&lt;b&gt;&#39;&amp;&quot;", "what &amp; why", "within"]
        {
            assert!(page.contains(expected), "{expected}");
        }
        for forbidden in ["<script", "http:", "https:", "<b>"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<circle").count(), 6, "every round is a dot");
    }
}

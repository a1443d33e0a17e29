//! The tables of docs/install.md: each wall on each kind of host, with its state.

use std::path::Path;

use crate::provider_names;

/// The headings of the kinds of hosts.
const HOSTS: [&str; 3] = ["## Debian and Ubuntu\n", "## macOS\n", "## Windows\n"];

/// Rows besides those of the walls.
const OTHER_INSTALLABLES: [&str; 5] = [
    "`docker` with runc",
    "`docker` with gVisor",
    "`docker` with Kata",
    "hardened",
    "Debian package",
];

/// The cells of the rows of the page below a heading.
fn rows<'p>(page: &'p str, heading: &str) -> Vec<Vec<&'p str>> {
    let (_, rest) = page.split_once(heading).expect("the page has the heading");
    let section = rest.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| wall"));
    // A `|` of a command is escaped.
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn install_page_has_a_row_with_a_state_for_every_wall_on_every_kind_of_host() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/install.md");
    let page = std::fs::read_to_string(file).unwrap();
    for heading in HOSTS {
        let rows = rows(&page, heading);
        for row in &rows {
            let [name, lines, state] = row[..] else { panic!("{heading}{row:?}") };
            assert!(!name.is_empty() && !lines.is_empty(), "{heading}{row:?}");
            assert!(state.starts_with("tested") || state.starts_with("not tested"), "{row:?}");
        }
        let walls = provider_names().into_iter().map(|name| format!("`{name}`"));
        for wanted in walls.chain(OTHER_INSTALLABLES.map(str::to_owned)) {
            let found = rows.iter().any(|row| row[0].contains(&wanted));
            assert!(found, "{heading} has no row for {wanted}");
        }
    }
}

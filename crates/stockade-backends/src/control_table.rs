//! The table of docs/providers.md: every control on every wall.

use std::collections::BTreeMap;
use std::path::Path;

use stockade_docker::Runtime;
use stockade_policy::Control;
use stockade_provider::{Ability, Precision};

const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->\n";

/// The table, one row for each control.
fn table() -> String {
    let mut walls: Vec<(String, BTreeMap<Control, Ability>)> =
        stockade_native::reference_abilities()
            .into_iter()
            .map(|(name, abilities)| (name.to_string(), abilities))
            .collect();
    for (name, runtime) in [("docker, runc", Runtime::Runc), ("docker, runsc", Runtime::Runsc)] {
        walls.push((name.to_owned(), stockade_docker::reference_abilities(runtime)));
    }
    let machines = stockade_qemu::reference_abilities(stockade_qemu::Accelerator::Tcg);
    walls.push(("qemu, tcg".to_owned(), machines));
    walls.push(("aca".to_owned(), stockade_aca::reference_abilities()));
    // The last two: only some builds have them.
    #[cfg(feature = "hyperlight")]
    walls.push(("wasm".to_owned(), stockade_wasm::reference_abilities()));
    #[cfg(feature = "hyperlight")]
    walls.push(("hyperlight".to_owned(), stockade_hyperlight::reference_abilities()));
    let names: Vec<&str> = walls.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!("| control | {} |\n", names.join(" | "));
    text.push_str(&format!("|---{}|\n", "|---".repeat(names.len())));
    for control in Control::all() {
        let cells: Vec<String> =
            walls.iter().map(|(_, abilities)| cell(&abilities[&control])).collect();
        text.push_str(&format!("| `{}` | {} |\n", control.as_str(), cells.join(" | ")));
    }
    text
}

/// The controls that the native wall enforces and containers with a runtime refuse.
fn refused_in_containers(runtime: Runtime) -> Vec<(Control, String)> {
    let native = stockade_native::reference_abilities();
    let native = native.into_iter().find(|(name, _)| name.as_str() == "native");
    let native = native.expect("the native wall has abilities").1;
    let containers = stockade_docker::reference_abilities(runtime);
    let refused = containers.into_iter().filter_map(|(control, ability)| match ability {
        Ability::Missing(obstacle) => Some((control, obstacle.reason)),
        Ability::Enforced { .. } | Ability::NotBuiltIn(_) => None,
    });
    refused.filter(|(control, _)| matches!(native[control], Ability::Enforced { .. })).collect()
}

fn cell(ability: &Ability) -> String {
    match ability {
        Ability::Enforced { mechanism, precision: Precision::Exact } => mechanism.clone(),
        Ability::Enforced { mechanism, precision: Precision::Approximate } => {
            format!("*approximate:* {mechanism}")
        }
        Ability::Enforced { mechanism, precision: Precision::Unverified } => {
            format!("*unverified:* {mechanism}")
        }
        Ability::Missing(obstacle) => format!("**refused:** {}", obstacle.reason),
        Ability::NotBuiltIn(obstacle) => format!("*not built in:* {}", obstacle.reason),
    }
}

#[test]
fn page_has_the_table_that_the_code_makes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let made = table();
    // The last columns are those of the walls which only some builds have.
    let found = match cfg!(feature = "hyperlight") {
        true => found.to_owned(),
        false => without_last_column(&without_last_column(found)),
    };
    if std::env::var_os("STOCKADE_BLESS").is_some() {
        if cfg!(not(feature = "hyperlight")) {
            panic!("bless with --features hyperlight: it has every wall");
        }
        std::fs::write(&page, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, made, "STOCKADE_BLESS=1 with --features hyperlight writes the table anew");
}

fn without_last_column(table: &str) -> String {
    let row = |line: &str| -> Option<String> {
        let (rest, _) = line.strip_suffix('|')?.rsplit_once('|')?;
        Some(format!("{rest}|\n"))
    };
    table.lines().filter_map(row).collect()
}

#[test]
fn containers_refuse_at_most_five_controls_of_the_native_wall_and_no_basic_one() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers.md");
    let page = std::fs::read_to_string(page).unwrap();
    for runtime in [Runtime::Runc, Runtime::Runsc] {
        let refused = refused_in_containers(runtime);
        assert!(!refused.is_empty() && refused.len() <= 5, "{refused:?}");
        for (control, reason) in refused {
            // Running, output, exit codes, timeouts, memory, egress, tools and files are basic.
            let name = control.as_str();
            let others = ["max_io_bytes_per_second", "workspace_layer", "commands"];
            assert!(others.contains(&name), "{name}: {reason}");
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            assert!(
                row.is_some_and(|row| row.contains(&format!("**refused:** {reason}"))),
                "{name}"
            );
        }
    }
}

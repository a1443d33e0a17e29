//! The table of docs/choosing.md: each built-in wall by isolation, cost, set-up, network and files.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use stockade_docker::Runtime;
use stockade_policy::Control;
use stockade_provider::Ability;

const BEGIN: &str = "<!-- walls: begin -->\n";
const END: &str = "<!-- walls: end -->\n";

/// One wall: what the code knows about it, and the rows of `stockade bench` that measure it.
struct Wall {
    name: &'static str,
    isolation: &'static str,
    abilities: BTreeMap<Control, Ability>,
    /// A new sandbox to its first result.
    start: &'static str,
    /// One more execution.
    again: &'static str,
    set_up: &'static str,
    used_for: &'static str,
}

fn walls() -> Vec<Wall> {
    let native = |wanted: &str| {
        let all = stockade_native::reference_abilities().into_iter();
        all.into_iter().find(|(name, _)| name.as_str() == wanted).expect("the wall is known").1
    };
    vec![
        Wall {
            name: "native",
            isolation: "process",
            abilities: native("native"),
            start: "python-api",
            again: "code",
            set_up: "none, if the host allows user namespaces",
            used_for: "any program of the host",
        },
        Wall {
            name: "reduced",
            isolation: "reduced",
            abilities: native("reduced"),
            start: "",
            again: "",
            set_up: "none",
            used_for: "hosts that forbid namespaces",
        },
        Wall {
            name: "wasm",
            isolation: "process",
            abilities: stockade_wasm::reference_abilities(),
            start: "wasm-new",
            again: "wasm-code",
            set_up: "the feature `wasm` and its component",
            used_for: "Python snippets, on any host",
        },
        Wall {
            name: "hyperlight",
            isolation: "vm",
            abilities: stockade_hyperlight::reference_abilities(),
            start: "hyperlight-new",
            again: "hyperlight-code",
            set_up: "the feature `hyperlight`, its worker and its component, and KVM",
            used_for: "Python snippets behind a hypervisor",
        },
        Wall {
            name: "docker, runc",
            isolation: "container",
            abilities: stockade_docker::reference_abilities(Runtime::Runc),
            start: "docker-run",
            again: "docker-exec",
            set_up: "an engine and an image",
            used_for: "programs of an image",
        },
        Wall {
            name: "docker, runsc",
            isolation: "user-kernel",
            abilities: stockade_docker::reference_abilities(Runtime::Runsc),
            start: "",
            again: "",
            set_up: "an engine with gVisor, and an image",
            used_for: "programs that may attack a kernel",
        },
        Wall {
            name: "qemu, tcg",
            isolation: "translated-vm",
            abilities: stockade_qemu::reference_abilities(stockade_qemu::Accelerator::Tcg),
            start: "vm-run",
            again: "vm-exec",
            set_up: "QEMU, and an image of `stockade image build --vm`",
            used_for: "code that must be assumed hostile",
        },
        Wall {
            name: "aca",
            isolation: "vm",
            abilities: stockade_aca::reference_abilities(),
            start: "",
            again: "",
            set_up: "a subscription of Azure",
            used_for: "programs that shall not run on this machine",
        },
    ]
}

fn table(measured: &Value) -> String {
    let mut text =
        "| wall | isolation | start: new sandbox to first result | overhead: one more execution | \
                    set-up | network | files | use |\n|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for wall in walls() {
        let holds = |control| matches!(wall.abilities[&control], Ability::Enforced { .. });
        let network = match (holds(Control::NetworkHosts), holds(Control::NetworkRequests)) {
            (true, true) => "named hosts, methods and paths",
            (true, false) => "named hosts",
            (false, _) => "none",
        };
        let files: Vec<&str> = [
            (Control::ReadPaths, "read"),
            (Control::WritePaths, "write"),
            (Control::WorkspaceLayer, "overlay"),
            (Control::HidePaths, "hide"),
        ]
        .into_iter()
        .filter(|(control, _)| holds(*control))
        .map(|(_, word)| word)
        .collect();
        let cells = [
            format!("`{}`", wall.name),
            format!("`{}`", wall.isolation),
            time(measured, wall.start),
            time(measured, wall.again),
            wall.set_up.to_owned(),
            network.to_owned(),
            files.join(", "),
            wall.used_for.to_owned(),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// The median of our side of a row, back to back, with its ratio to the peer of its bound.
fn time(measured: &Value, row: &str) -> String {
    if row.is_empty() {
        return "no row measures it".to_owned();
    }
    let rows = measured["rows"].as_array().into_iter().flatten();
    let found = rows.into_iter().find(|one| one["row"] == row);
    let sides = found.and_then(|one| one["passes"][0]["sides"].as_array());
    let median = |index: usize| sides?.get(index)?["median"].as_f64();
    match (median(0), median(1)) {
        (Some(ours), Some(peer)) if peer > 0.0 => {
            let name = sides.and_then(|sides| sides[1]["name"].as_str()).unwrap_or("its peer");
            format!("{ours:.1} ms, {:.2} × {name}", ours / peer)
        }
        _ => format!("`stockade bench --rows {row}`"),
    }
}

#[test]
fn choosing_page_has_the_table_that_the_code_makes() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = docs.join("choosing.md");
    let measured = std::fs::read_to_string(docs.join("measured.json")).unwrap();
    let measured: Value = serde_json::from_str(&measured).unwrap();
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let made = table(&measured);
    if std::env::var_os("STOCKADE_BLESS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, made, "STOCKADE_BLESS=1 with --features hyperlight writes the table anew");
}

#[test]
fn measured_rows_show_figures_and_others_the_command_to_measure() {
    let measured = serde_json::json!({ "rows": [{ "row": "wasm-new", "passes": [{ "sides": [
        { "name": "stockade", "median": 5.0 }, { "name": "bare", "median": 20.0 }
    ] }] }] });
    assert_eq!(time(&measured, "wasm-new"), "5.0 ms, 0.25 × bare");
    assert_eq!(time(&measured, "code"), "`stockade bench --rows code`");
}

//! The policy files and folders that the probes of one wall use.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

use crate::bench::{Bench, folder};
use crate::wall::INSIDE;

/// Writes them below a folder of the wall's user; returns their names for the words of acts.
pub(crate) fn write(
    own: &Path,
    user: Option<u32>,
    bench: &Bench,
) -> io::Result<BTreeMap<&'static str, String>> {
    let text = |path: &Path| path.display().to_string();
    let mut names = BTreeMap::from([("own", text(own))]);
    let writable = folder(&own.join("writable"), user)?;
    names.insert("writable", text(&writable));
    let workspace = folder(&own.join("workspace"), user)?;
    let guarded = folder(&workspace.join("guarded"), user)?;
    names.insert("workspace", text(&workspace));
    let probe = bench.probe.display();
    let shows = format!("{{host: {probe}, guest: {INSIDE}}}");
    let shown = format!("{{host: {}, guest: /shown}}", bench.names["shown"]);
    let programs = &bench.names["programs"];
    let listed = format!("{{host: {programs}, guest: {programs}}}");
    let policies = [
        (
            "few-inodes",
            own,
            format!("filesystem: {{read: [{shows}]}}\nlimits: {{max_inodes: 64}}\n"),
        ),
        (
            "listed",
            own,
            format!(
                "filesystem: {{read: [{listed}, {shown}]}}\ncommand_allowlist: [{programs}/stockade-probe]\n"
            ),
        ),
        ("plain", own, format!("filesystem: {{read: [{shows}, {shown}]}}\n")),
        ("exact", own, format!("filesystem: {{read: [{shows}]}}\nlimits: {{exact: true}}\n")),
        ("unknown-key", own, format!("filesystem: {{read: [{shows}]}}\nfilesystems: {{}}\n")),
        ("future", own, format!("version: \"99\"\nfilesystem: {{read: [{shows}]}}\n")),
        ("with-tools", own, format!("filesystem: {{read: [{shows}]}}\ntool_allowlist: [open]\n")),
        (
            "guarded",
            own,
            format!(
                "filesystem: {{read: [{shows}, {{host: {0}/guarded/kept, guest: \
                 /workspace/guarded/kept}}], workspace: {{host: {0}, mode: write}}}}\n",
                own.join("pinned").display()
            ),
        ),
        (
            "changeable",
            guarded.as_path(),
            format!(
                "filesystem: {{read: [{shows}], workspace: {{host: {}, mode: write}}}}\n",
                workspace.display()
            ),
        ),
    ];
    let offered = ["open", "closed"].map(|name| {
        format!(
            "  - name: {name}\n    description: Returns its input.\n    command: [cat]\n    \
             input_schema: {{type: object}}\n"
        )
    });
    let offered = ("tools", own, format!("version: \"1\"\ntools:\n{}", offered.concat()));
    for (name, directory, content) in policies.into_iter().chain([offered]) {
        let path = directory.join(format!("{name}.yaml"));
        fs::write(&path, content)?;
        if user.is_some() {
            chown(&path, user, user)?;
        }
        names.insert(name, text(&path));
    }
    Ok(names)
}

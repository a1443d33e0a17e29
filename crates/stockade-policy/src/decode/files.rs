//! `filesystem` and `sandbox_mounts`.

use stockade_text::{Kind, Node, Table};

use crate::paths::{Access, FilePathError, GuestPath, WORKSPACE, host_path};
use crate::policy::{Mount, Workspace, WorkspaceMode};
use crate::source::{Basis, Sourced};

use super::keys;
use super::values::Decoder;

/// The most mounts of one kind, and the most hidden paths.
const MAX_MOUNTS: usize = 200;

/// Mounts, hidden paths, the workspace, and whether all of them must be exact.
type Files = (Vec<Mount>, Vec<Sourced<GuestPath>>, Sourced<Workspace>, Sourced<bool>);

/// The workspace modes of a policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Host(WorkspaceMode),
    Scratch,
    Nothing,
}

impl Decoder<'_, '_> {
    pub(super) fn files(&mut self, table: &Table<'_>) -> Files {
        let section = self.section(table, "filesystem", keys::FILESYSTEM);
        let mut mounts = Vec::new();
        let lists = [
            ("read", "filesystem.read", Access::Read),
            ("write", "filesystem.write", Access::Write),
        ];
        for (key, what, access) in lists {
            let items = section.get(key).and_then(|node| self.list_up_to(node, what, MAX_MOUNTS));
            for item in items.unwrap_or_default() {
                if let Some(mount) = self.mount(item, what, access) {
                    self.add_mount(&mut mounts, mount, item);
                }
            }
        }
        self.sandbox_mounts(table, &mut mounts);
        // The order in the text does not affect the mounts.
        mounts.sort_by(|a, b| a.guest.cmp(&b.guest));
        let hide = self.hide(&section, &mounts);
        let workspace = self.workspace(&section);
        let otherwise = Sourced::built_in(false, "files may be enforced approximately by default");
        let exact = section.get("exact").and_then(|node| {
            self.boolean(node, "filesystem.exact").map(|value| self.sourced(value, node))
        });
        (mounts, hide, workspace, exact.unwrap_or(otherwise))
    }

    fn hide(&mut self, section: &Table<'_>, mounts: &[Mount]) -> Vec<Sourced<GuestPath>> {
        let items = section
            .get("hide")
            .and_then(|node| self.list_up_to(node, "filesystem.hide", MAX_MOUNTS));
        let mut hidden: Vec<Sourced<GuestPath>> = Vec::new();
        for item in items.unwrap_or_default() {
            let Some(text) = self.text(item, "filesystem.hide") else { continue };
            let Some(path) = self.path(GuestPath::parse_mount(&text), item) else { continue };
            if path.as_str() == WORKSPACE {
                let message =
                    format!("`{WORKSPACE}` is the workspace and cannot be hidden by name");
                self.mistake(item.place, message, "write `workspace: { mode: nothing }` instead");
            } else if mounts.iter().any(|mount| mount.guest == path) {
                let message = format!("`{path}` is both mounted and hidden");
                self.mistake(item.place, message, "keep one of the two");
            } else if !hidden.iter().any(|hide| hide.value == path) {
                hidden.push(self.sourced(path, item));
            }
        }
        hidden.sort_by(|a, b| a.value.cmp(&b.value));
        hidden
    }

    fn mount(&mut self, node: &Node, clause: &'static str, access: Access) -> Option<Mount> {
        let what = clause;
        let (host, guest) = if matches!(node.kind, Kind::Map(_)) {
            let table = self.table(node, what, keys::MOUNT)?;
            let host = self.required(&table, "host", what);
            let guest = self.required(&table, "guest", what);
            (host, guest)
        } else {
            (Some(node), Some(node))
        };
        let is_short = !matches!(node.kind, Kind::Map(_));
        if is_short {
            self.text(node, what)?;
        }
        // Both are checked before the first mistake ends the mount.
        let host = host.and_then(|node| Some((node, self.text(node, what)?)));
        let guest = guest.and_then(|node| Some((node, self.text(node, what)?)));
        if let Some((_, host_text)) = host.as_ref().filter(|_| is_short)
            && !host_text.starts_with(['/', '~', '$'])
        {
            let message = format!("`{host_text}` does not define its path inside");
            let name = host_text.trim_start_matches("./").trim_end_matches('/');
            let remedy = format!("write {{ host: {host_text}, guest: /{name} }}");
            self.mistake(node.place, message, remedy);
            return None;
        }
        let host = host.and_then(|(node, text)| {
            let read = host_path(&text, self.base, access);
            self.path(read, node)
        });
        // One text for both has one mistake.
        if is_short && host.is_none() {
            return None;
        }
        let guest = guest.and_then(|(node, text)| self.path(GuestPath::parse_mount(&text), node));
        let basis = Basis::Line(self.report.origin(node.place));
        Some(Mount { host: host?, guest: guest?, access, clause, basis })
    }

    fn sandbox_mounts(&mut self, table: &Table<'_>, mounts: &mut Vec<Mount>) {
        let section = self.section(table, "sandbox_mounts", keys::SANDBOX_MOUNTS);
        let places = [
            ("input_dir", "sandbox_mounts.input_dir", "/input", Access::Read),
            ("output_dir", "sandbox_mounts.output_dir", "/output", Access::Write),
        ];
        for (key, clause, guest, access) in places {
            let Some(node) = section.get_non_null(key) else { continue };
            let Some(text) = self.text(node, clause) else { continue };
            let read = host_path(&text, self.base, access);
            let Some(host) = self.path(read, node) else { continue };
            let Some(guest) = self.path(GuestPath::parse_mount(guest), node) else { continue };
            let basis = Basis::Line(self.report.origin(node.place));
            self.add_mount(mounts, Mount { host, guest, access, clause, basis }, node);
        }
    }

    fn add_mount(&mut self, mounts: &mut Vec<Mount>, mount: Mount, node: &Node) {
        if mount.guest.as_str() == WORKSPACE {
            let message = format!("`{WORKSPACE}` is the workspace, not an ordinary mount");
            self.mistake(node.place, message, "use `filesystem.workspace` with `host` and `mode`");
            return;
        }
        if mounts.contains(&mount) {
            return;
        }
        if let Some(first) = mounts.iter().find(|other| other.guest == mount.guest) {
            let first = match first.basis.origin() {
                Some(origin) if origin.line == 0 => format!("by {}", origin.text),
                origin => format!("on line {}", origin.map_or(0, |origin| origin.line)),
            };
            let message = format!("`{}` is mounted twice; first {first}", mount.guest);
            self.mistake(node.place, message, "keep one of the two, or choose another guest path");
            return;
        }
        mounts.push(mount);
    }

    fn workspace(&mut self, section: &Table<'_>) -> Sourced<Workspace> {
        let otherwise = Sourced::built_in(Workspace::Scratch, "an empty directory by default");
        let Some(node) = section.get("workspace") else { return otherwise };
        match self.explicit_workspace(node) {
            Some(workspace) => self.sourced(workspace, node),
            None => otherwise,
        }
    }

    fn explicit_workspace(&mut self, node: &Node) -> Option<Workspace> {
        if let Kind::Scalar { text, .. } = &node.kind {
            let message = format!("filesystem.workspace must be a mapping, not `{text}`");
            let remedy = match text.as_str() {
                "scratch" | "nothing" => format!("write `{{ mode: {text} }}`"),
                "overlay" | "read" | "write" => format!("write `{{ host: ., mode: {text} }}`"),
                path => format!("write `{{ host: {path}, mode: overlay }}`"),
            };
            self.mistake(node.place, message, remedy);
            return None;
        }
        let table = self.table(node, "filesystem.workspace", keys::WORKSPACE)?;
        let words = [
            ("overlay", Mode::Host(WorkspaceMode::Overlay)),
            ("read", Mode::Host(WorkspaceMode::Read)),
            ("write", Mode::Host(WorkspaceMode::Write)),
            ("scratch", Mode::Scratch),
            ("nothing", Mode::Nothing),
        ];
        let mode = match table.get("mode") {
            Some(node) => self.word(node, "filesystem.workspace.mode", &words)?,
            None => Mode::Host(WorkspaceMode::Overlay),
        };
        let mode = match (mode, table.get("host")) {
            (Mode::Host(mode), _) => mode,
            (Mode::Scratch, None) => return Some(Workspace::Scratch),
            (Mode::Nothing, None) => return Some(Workspace::Nothing),
            (_, Some(host)) => {
                let message = "this workspace mode has no host directory";
                self.mistake(host.place, message, "remove `host`, or write `mode: overlay`");
                return None;
            }
        };
        let node = self.required(&table, "host", "filesystem.workspace")?;
        let text = self.text(node, "filesystem.workspace.host")?;
        let access = match mode {
            WorkspaceMode::Write => Access::Write,
            WorkspaceMode::Read | WorkspaceMode::Overlay => Access::Read,
        };
        let read = host_path(&text, self.base, access);
        let host = self.path(read, node)?;
        Some(Workspace::Host { host, mode })
    }

    pub(super) fn path<T>(&mut self, read: Result<T, FilePathError>, node: &Node) -> Option<T> {
        match read {
            Ok(path) => Some(path),
            Err(error) => {
                self.mistake(node.place, error.to_string(), error.remedy());
                None
            }
        }
    }
}

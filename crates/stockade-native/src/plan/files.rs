//! The files of a sandbox: which host trees it shows, and how the new root is built.

use std::path::{Path, PathBuf};

use stockade_hostfiles::{MASKED_PROC, Mode, READ_ONLY_PROC, Shown};
use stockade_interpreters::SymbolicLink;
use stockade_launcher::{Attributes, FileMode, IdMap, Memory, OutsideStep, Step, TreeKind};
use stockade_policy::{Limit, SCRATCH, WORKSPACE, Workspace};
use stockade_provider::{java_store, java_store_path};

use crate::host_files::Base;
use crate::machine::Setting;

use super::{Inputs, etc, limit};

/// Device nodes that are shown from the host.
const NODES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Symbolic links in `/dev` that programs expect.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// The new root contains only mount points and small files.
const ROOT: Memory = Memory { bytes: 4 << 20, inodes: 4096, executable: true };

/// The name under which a `--root` directory is taken.
const BASE: &str = "base";

/// A host tree and where to attach it.
struct Tree {
    host: PathBuf,
    guest: PathBuf,
    kind: TreeKind,
    attributes: Attributes,
    /// Whether the caller's files appear as files of the sandbox's user.
    owned: bool,
    layered: bool,
    /// Whether it gets its own overlay, so that other sandboxes do not share its locks.
    apart: bool,
}

impl Tree {
    /// The place inside, which is unique.
    fn name(&self) -> String {
        self.guest.display().to_string()
    }

    /// The host path to take. A single file with its own overlay needs its directory.
    fn source(&self) -> (PathBuf, TreeKind) {
        match (self.apart, self.kind, self.host.parent()) {
            (true, TreeKind::File, Some(parent)) => (parent.to_owned(), TreeKind::Directory),
            _ => (self.host.clone(), self.kind),
        }
    }

    fn part(&self) -> Option<PathBuf> {
        let file = self.apart && self.kind == TreeKind::File;
        self.host.file_name().filter(|_| file).map(PathBuf::from)
    }

    /// Uses an overlay if this machine can.
    fn set_apart(mut self, inputs: &Inputs<'_>) -> Tree {
        let directory = match self.kind {
            TreeKind::Directory => Some(self.host.as_path()),
            TreeKind::File => self.host.parent(),
        };
        self.apart = directory.is_some_and(|directory| inputs.machine.is_separable(directory));
        self
    }
}

/// The files that a sandbox sees.
pub(crate) struct Visible {
    trees: Vec<Tree>,
    links: Vec<SymbolicLink>,
    copies: Vec<PathBuf>,
    base: Option<PathBuf>,
    /// Files of the base that the wall does not replace by its own.
    kept: Vec<PathBuf>,
    /// The first host id of the sandbox's own range.
    first_id: Option<u32>,
    owners: Option<(IdMap, IdMap)>,
}

impl Visible {
    pub(crate) fn of(inputs: &Inputs<'_>) -> Visible {
        let mut visible = Visible {
            trees: Vec::new(),
            links: Vec::new(),
            copies: Vec::new(),
            base: None,
            kept: Vec::new(),
            first_id: inputs.first_id,
            owners: inputs.first_id.map(|first| {
                let map = |own, id: u32| IdMap { inside: own, outside: first + id, count: 1 };
                let (user, group) = inputs.ids;
                (map(inputs.machine.user, user), map(inputs.machine.group, group))
            }),
        };
        match &inputs.files.base {
            Base::System { binds, links } => {
                for (bind, kind) in binds {
                    visible.read_only(&bind.host, &bind.guest, *kind, inputs);
                }
                visible.links.clone_from(links);
                visible.settings(inputs);
            }
            Base::Directory(directory) => visible.base = Some(directory.clone()),
            Base::Image { directory, own } => {
                visible.base = Some(directory.clone());
                visible.kept.clone_from(own);
            }
        }
        let more = inputs.devices.iter().map(PathBuf::as_path);
        for node in NODES.iter().map(Path::new).chain(more) {
            let attributes = Attributes { writable: true, executable: false, devices: true };
            visible.trees.push(Tree {
                host: node.to_owned(),
                guest: node.to_owned(),
                kind: TreeKind::File,
                attributes,
                owned: false,
                layered: false,
                apart: false,
            });
        }
        // A mount of the policy replaces the wall's own tree at the same place.
        let is_replaced = |at: &Path| inputs.files.shown.iter().any(|shown| shown.guest == at);
        visible.trees.retain(|tree| !is_replaced(&tree.guest));
        visible.links.retain(|link| !is_replaced(&link.at));
        let any_program = inputs.policy.commands.is_none();
        for shown in &inputs.files.shown {
            let tree = tree_of(shown, any_program);
            visible.trees.push(match shown.mode {
                Mode::Read => tree.set_apart(inputs),
                Mode::Write | Mode::Overlay => tree,
            });
        }
        visible
    }

    fn read_only(&mut self, host: &Path, guest: &Path, kind: TreeKind, inputs: &Inputs<'_>) {
        let attributes = Attributes { writable: false, executable: true, devices: false };
        let (host, guest) = (host.to_owned(), guest.to_owned());
        let (owned, layered, apart) = (false, false, false);
        let tree = Tree { host, guest, kind, attributes, owned, layered, apart };
        self.trees.push(match kind {
            TreeKind::Directory => tree.set_apart(inputs),
            TreeKind::File => tree,
        });
    }

    fn settings(&mut self, inputs: &Inputs<'_>) {
        for setting in &inputs.machine.settings {
            match setting {
                Setting::SymbolicLink(link) => self.links.push(link.clone()),
                Setting::Shown(path) => self.read_only(path, path, TreeKind::Directory, inputs),
                Setting::Copied(path) => self.copies.push(path.clone()),
            }
        }
    }

    /// The id maps of a tree that must be taken before the clone, which needs the host's rights
    /// over file owners.
    fn owners(&self, tree: &Tree) -> Option<(IdMap, IdMap)> {
        self.owners.filter(|_| tree.owned)
    }

    pub(super) fn taken_outside(&self) -> Vec<OutsideStep> {
        let mut steps = Vec::new();
        for tree in &self.trees {
            if let Some((users, groups)) = self.owners(tree) {
                let (path, kind) = tree.source();
                steps.push(OutsideStep::TakeOwnedTree {
                    name: tree.name(),
                    path,
                    attributes: tree.attributes,
                    kind,
                    users,
                    groups,
                });
            }
        }
        if let (Some(base), Some(first)) = (&self.base, self.first_id) {
            // The whole range, so that the users of an image keep their ids.
            let all = IdMap { inside: 0, outside: first, count: 1 << 16 };
            steps.push(OutsideStep::TakeOwnedTree {
                name: BASE.to_owned(),
                path: base.clone(),
                attributes: Attributes { writable: false, executable: true, devices: false },
                kind: TreeKind::Directory,
                users: all,
                groups: all,
            });
        }
        steps
    }

    pub(super) fn taken(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self
            .trees
            .iter()
            .filter(|tree| self.owners(tree).is_none())
            .map(|tree| {
                let (path, kind) = tree.source();
                Step::TakeTree { name: tree.name(), path, attributes: tree.attributes, kind }
            })
            .collect();
        if let (Some(base), None) = (&self.base, self.owners) {
            steps.push(Step::TakeTree {
                name: BASE.to_owned(),
                path: base.clone(),
                attributes: Attributes { writable: false, executable: true, devices: false },
                kind: TreeKind::Directory,
            });
        }
        steps
    }

    /// Builds the new root, except for `/proc` and the policy's mounts.
    pub(super) fn built(&self, inputs: &Inputs<'_>) -> Vec<Step> {
        let policy = inputs.policy;
        let any_program = policy.commands.is_none();
        let scratch = Memory {
            bytes: limit(policy, Limit::Disk) << 20,
            // Adds the directories that the wall itself creates there.
            inodes: limit(policy, Limit::Inodes) + SCRATCH.len() as u64 + 8,
            executable: any_program,
        };
        let mut steps = vec![Step::MakeScratch(scratch), Step::MakeRoot(ROOT)];
        if self.base.is_some() {
            steps.push(Step::OverlayRoot { name: BASE.to_owned() });
        }
        let own = |path: &Path| path.starts_with("/dev") || path.starts_with("/etc");
        let system = || self.trees.iter().filter(|tree| !tree.owned && !own(&tree.guest));
        // Outer mounts first, and the wall's own before the policy's mounts below them.
        steps.extend(system().filter(|tree| !in_scratch(&tree.guest)).map(attach));
        let is_shown = |path: &Path| self.trees.iter().any(|tree| tree.guest == path);
        let resolver = ("/etc/resolv.conf", inputs.egress.resolver());
        let settings = etc::FILES.iter().chain([&resolver]);
        let is_kept = |path: &Path| self.kept.iter().any(|kept| kept == path);
        let settings = settings.filter(|(path, _)| !is_shown(Path::new(path)));
        let settings = settings.filter(|(path, _)| !is_kept(Path::new(path)));
        steps.extend(settings.map(|(path, content)| Step::File {
            path: PathBuf::from(path),
            content: content.as_bytes().to_vec(),
        }));
        steps.extend(inputs.authorities.iter().flat_map(|content| {
            let of_java = Step::File {
                path: PathBuf::from(java_store_path(etc::AUTHORITIES)),
                content: java_store(content),
            };
            let path = PathBuf::from(etc::AUTHORITIES);
            [Step::File { path, content: content.clone().into_bytes() }, of_java]
        }));
        let copies = self.copies.iter().filter(|path| !is_shown(path));
        steps.extend(copies.map(|path| Step::CopyFile { path: path.clone() }));
        let link =
            |link: &SymbolicLink| Step::Link { path: link.at.clone(), target: link.target.clone() };
        steps.extend(self.links.iter().filter(|link| !in_scratch(&link.at)).map(link));
        steps.extend(DEVICE_LINKS.iter().map(|(path, target)| Step::Link {
            path: PathBuf::from(path),
            target: PathBuf::from(target),
        }));
        let own_trees = self.trees.iter().filter(|tree| !tree.owned && own(&tree.guest));
        steps.extend(own_trees.map(attach));
        steps.extend(SCRATCH.iter().map(|path| scratch_at(path, 0o1777)));
        // An interpreter can be installed in the host's `/tmp`, so it is attached after the
        // sandbox's own `/tmp`, which would cover it.
        steps.extend(system().filter(|tree| in_scratch(&tree.guest)).map(attach));
        steps.extend(self.links.iter().filter(|link| in_scratch(&link.at)).map(link));
        steps.push(match &policy.workspace.value {
            Workspace::Scratch => scratch_at(WORKSPACE, 0o755),
            // A mount point and working directory; a workspace of the policy is attached over it.
            Workspace::Host { .. } | Workspace::Nothing => {
                Step::Directory { path: PathBuf::from(WORKSPACE), mode: FileMode(0o555) }
            }
        });
        steps
    }

    /// Adds `/proc`, then what the policy shows and hides, over the rest of the root.
    pub(super) fn finished(&self, inputs: &Inputs<'_>) -> Vec<Step> {
        let mut steps = own_proc(inputs);
        steps.extend(self.trees.iter().filter(|tree| tree.owned).map(attach));
        let bundles = inputs.authorities.iter().flat_map(|content| {
            etc::BUNDLES.map(|path| Step::Cover { path: path.into(), content: content.clone() })
        });
        steps.extend(bundles);
        steps.extend(inputs.files.pinned.iter().map(|path| Step::Pin { path: path.clone() }));
        steps.extend(
            inputs
                .policy
                .hide
                .iter()
                .map(|path| Step::Mask { path: PathBuf::from(path.value.as_str()) }),
        );
        steps
    }

    /// Places inside where writes reach the host.
    pub(super) fn writable_on_host(&self) -> Vec<&Path> {
        let direct = |tree: &&Tree| tree.owned && tree.attributes.writable && !tree.layered;
        self.trees.iter().filter(direct).map(|tree| tree.guest.as_path()).collect()
    }

    /// Places inside that are writable.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> =
            SCRATCH.iter().filter(|path| !path.starts_with("/dev")).map(PathBuf::from).collect();
        places.push(PathBuf::from(WORKSPACE));
        let changed = |tree: &&Tree| tree.owned && (tree.attributes.writable || tree.layered);
        places.extend(self.trees.iter().filter(changed).map(|tree| tree.guest.clone()));
        places
    }
}

fn tree_of(shown: &Shown, any_program: bool) -> Tree {
    let writable = shown.mode == Mode::Write;
    // With a `command_allowlist` nothing writable is executable.
    let executable = any_program || shown.mode == Mode::Read;
    Tree {
        host: shown.host.clone(),
        guest: shown.guest.clone(),
        kind: shown.kind,
        attributes: Attributes { writable, executable, devices: false },
        owned: true,
        layered: shown.mode == Mode::Overlay,
        apart: false,
    }
}

fn attach(tree: &Tree) -> Step {
    let (name, path) = (tree.name(), tree.guest.clone());
    let executable = tree.attributes.executable;
    match (tree.layered, tree.apart) {
        (true, _) => Step::AttachOverlay { name, path, executable },
        (false, true) => Step::AttachApart { name, part: tree.part(), path, executable },
        (false, false) => Step::AttachTree { name, path },
    }
}

fn in_scratch(path: &Path) -> bool {
    SCRATCH.iter().any(|place| path.starts_with(place))
}

fn scratch_at(path: &str, mode: u32) -> Step {
    Step::AttachScratch { path: PathBuf::from(path), mode: FileMode(mode) }
}

/// The sandbox's own `/proc` and `/dev/pts`, masked as container engines do.
fn own_proc(inputs: &Inputs<'_>) -> Vec<Step> {
    let path = |path: &str| PathBuf::from(path);
    let mut steps = vec![
        Step::Proc { pids_only: false },
        Step::Terminals,
        // Before `/proc/sys` becomes read-only: this writes a sysctl.
        Step::ForbidUserNamespaces,
    ];
    // This writes a sysctl too.
    steps.extend(inputs.egress.ports());
    steps.extend(inputs.proc_files.iter().map(|(path, content)| Step::Cover {
        path: PathBuf::from(path),
        content: content.clone(),
    }));
    steps.extend(MASKED_PROC.iter().map(|it| Step::Mask { path: path(it) }));
    steps.extend(READ_ONLY_PROC.iter().map(|it| Step::ReadOnly { path: path(it) }));
    steps
}

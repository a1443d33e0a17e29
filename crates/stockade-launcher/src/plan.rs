//! A wall as plain data.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything the launcher does, in order. The host sends it as one message; the descriptors with it
/// are one for each [`Step::EnterCgroup`], in order, and then those that the launcher keeps open as
/// long as the sandbox lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Acts before the clone, with the caller's rights.
    pub outside: Vec<OutsideStep>,
    /// The clone.
    pub birth: Birth,
    /// Acts of the first process inside, the last of which makes it the guest or starts a program.
    pub inside: Vec<Step>,
    /// Acts when everything inside is to end or has ended.
    pub after: Vec<AfterStep>,
    /// Whether the last descriptor is a timer, timerfd_create(2). When it expires the launcher kills
    /// everything inside: the host itself may be stopped.
    pub has_timer: bool,
}

/// One act before the clone, with the rights of whoever started the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum OutsideStep {
    /// A copy of a host tree whose owner is shown as somebody else inside, kept aside until it is
    /// attached. Only whoever may change the owners of the file system itself may do this, so it
    /// comes before the clone.
    TakeOwnedTree {
        /// The name it is attached by.
        name: String,
        /// The host path, without links in it.
        path: PathBuf,
        /// What it may be used for inside.
        attributes: Attributes,
        /// What must be there.
        kind: TreeKind,
        /// Owners on the disk, and the host's ids that stand for them inside.
        users: IdMap,
        /// The same for groups.
        groups: IdMap,
    },
}

/// One act of the launcher after the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum AfterStep {
    /// Kills everything in a version 2 cgroup.
    KillCgroup {
        /// Its `cgroup.kill`.
        file: PathBuf,
    },
    /// Removes a directory with everything below it. Nobody uses it any more.
    RemoveTree {
        /// The directory.
        directory: PathBuf,
    },
    /// Removes a cgroup that has become empty.
    RemoveCgroup {
        /// Its directory.
        directory: PathBuf,
    },
}

/// How the first process inside comes to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Birth {
    /// What holds it and everybody it starts together.
    pub family: Family,
    /// A version 2 cgroup to be born in.
    pub cgroup: Option<PathBuf>,
    /// Namespaces that stay the host's.
    #[cfg(feature = "weaken")]
    pub shared: Vec<SharedNamespace>,
}

/// A namespace that a weakened wall shares with the host.
#[cfg(feature = "weaken")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharedNamespace {
    /// The network.
    Network,
    /// Message queues and shared memory.
    Ipc,
}

/// What holds the processes of a sandbox together, so that all of them end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Family {
    /// Namespaces of their own, of users, mounts, processes, network, ipc and host name.
    Namespaces {
        /// User ids inside and outside.
        users: IdMap,
        /// Group ids inside and outside.
        groups: IdMap,
        /// What writes these maps.
        mapper: Mapper,
    },
    /// They descend from the launcher, which reaches all of them at once.
    Descendants(Reach),
}

/// What writes the maps of ids of a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mapper {
    /// The launcher: as root any ids, otherwise the caller's own alone.
    Launcher,
    /// [`NEWUIDMAP`] and [`NEWGIDMAP`], which give an ordinary user the ids that the host grants it.
    Helpers,
}

/// The program that maps user ids for ordinary users, newuidmap(1).
pub const NEWUIDMAP: &str = "/usr/bin/newuidmap";

/// The program that maps group ids for ordinary users, newgidmap(1).
pub const NEWGIDMAP: &str = "/usr/bin/newgidmap";

/// By what the launcher reaches everybody below it and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// A Landlock domain that signals do not leave.
    Domain,
    /// A user id that nobody else has, with the next one.
    User(u32),
}

/// Which ids inside stand for which outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdMap {
    /// The first id inside.
    pub inside: u32,
    /// The first id outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// One act inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Step {
    /// Enters a version 1 cgroup, by the next of the descriptors that came with the plan: the kernel
    /// checks the rights of the process that opened it. A process that writes itself there does not
    /// wait for RCU, as one that is moved by another does.
    EnterCgroup {
        /// The file that takes the ids of threads, for reports.
        file: PathBuf,
    },
    /// The cgroups entered so far become the top of all that is seen of them.
    OwnCgroups,
    /// No mount event goes to the host or comes from it.
    PrivateMounts,
    /// A copy of a host tree, kept aside until it is attached. Before the ids change: as root the
    /// host's files are reached with the host's rights, and no later.
    TakeTree {
        /// The name it is attached by.
        name: String,
        /// The host path, without links in it.
        path: PathBuf,
        /// What it may be used for inside.
        attributes: Attributes,
        /// What must be there.
        kind: TreeKind,
    },
    /// The ids of everything inside; privileges in the new user namespace are kept until sealed.
    BecomeUser {
        /// The user id inside.
        user: u32,
        /// The group id inside.
        group: u32,
    },
    /// The new root: an empty file system in memory.
    MakeRoot(Memory),
    /// A tree that was taken becomes the new root, under a layer for the places that are made in it.
    OverlayRoot {
        /// The tree's name.
        name: String,
    },
    /// A second file system in memory for everything writable, so that one limit holds for all.
    /// Before the new root, which covers it.
    MakeScratch(Memory),
    /// A directory in the new root.
    Directory {
        /// Its path inside.
        path: PathBuf,
        /// Its permissions.
        mode: FileMode,
    },
    /// A symbolic link in the new root.
    Link {
        /// Its path inside.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
    /// A read-only file in the new root.
    File {
        /// Its path inside.
        path: PathBuf,
        /// What it holds.
        content: String,
    },
    /// A read-only copy of a small public file of the host, at the same path in the new root.
    CopyFile {
        /// Its path, without links in it.
        path: PathBuf,
    },
    /// Attaches a tree that was taken; the place is made if it is not there.
    AttachTree {
        /// The tree's name.
        name: String,
        /// Its path inside.
        path: PathBuf,
    },
    /// Attaches a directory that was taken, or one file of it, read-only and through a file system
    /// of the sandbox's own: locks and watches on its files are nobody else's.
    AttachApart {
        /// The tree's name.
        name: String,
        /// The one file, by its name in the directory.
        part: Option<PathBuf>,
        /// Its path inside.
        path: PathBuf,
        /// Whether files in it can be executed.
        executable: bool,
    },
    /// Attaches a tree under a private layer of the scratch file system, which takes all changes.
    AttachOverlay {
        /// The tree's name.
        name: String,
        /// Its path inside.
        path: PathBuf,
        /// Whether files in it can be executed.
        executable: bool,
    },
    /// Attaches a fresh directory of the scratch file system.
    AttachScratch {
        /// Its path inside.
        path: PathBuf,
        /// Its permissions.
        mode: FileMode,
    },
    /// The sandbox's own `/proc`.
    Proc {
        /// Only process directories.
        pids_only: bool,
    },
    /// The sandbox's own terminals at `/dev/pts`.
    Terminals,
    /// Nothing is seen at a path any more: an empty read-only directory or file.
    Mask {
        /// Its path inside.
        path: PathBuf,
    },
    /// Another content is read at a path. A path that is not there needs none.
    Cover {
        /// Its path inside.
        path: PathBuf,
        /// What is read there.
        content: String,
    },
    /// A directory can no longer be renamed or removed from inside, as no place of a mount can.
    Pin {
        /// Its path inside.
        path: PathBuf,
    },
    /// A part of the new root becomes read-only.
    ReadOnly {
        /// Its path inside.
        path: PathBuf,
    },
    /// No user namespace can be made inside.
    ForbidUserNamespaces,
    /// Every port can be bound without privileges in the sandbox's own network namespace. Before
    /// the settings of the kernel become read-only.
    OpenPorts,
    /// The new root becomes the root, and the old one is gone.
    Pivot,
    /// The root itself becomes read-only.
    SealRoot,
    /// The loopback interface.
    Loopback,
    /// One place inside at which connections to others arrive; the guest serves it. After the
    /// loopback interface, and while there are privileges.
    WayOut {
        /// Where the guest listens, by TCP and UDP; one more address of the loopback interface.
        listen: SocketAddrV4,
        /// What arrives there.
        redirected: Vec<Redirected>,
    },
    /// Where programs call tools; the guest serves it. After the new root is the root, and while
    /// there are privileges.
    ToolSocket(ToolSocket),
    /// How many descriptors each program that the guest starts may have, where the guest itself
    /// needs more.
    ProgramFiles(u64),
    /// The host name inside.
    HostName(String),
    /// A resource limit, soft and hard.
    Limit {
        /// Which.
        resource: Resource,
        /// How much.
        amount: u64,
    },
    /// A session of its own, without a controlling terminal.
    NewSession,
    /// The working directory.
    WorkingDirectory(PathBuf),
    /// Every capability is given up, in every set, for good, and execve grants nothing.
    SealPrivileges,
    /// Landlock over the files, everything not listed refused.
    Landlock {
        /// The version of Landlock whose rights are all handled; the kernel must have it.
        version: u32,
        /// What is allowed.
        rules: Vec<LandlockRule>,
    },
    /// Landlock over the network: no port can be bound or connected to.
    LandlockNetwork {
        /// The version of Landlock.
        version: u32,
    },
    /// Whoever below it loses its parent becomes the first process's child.
    AdoptOrphans,
    /// A filter that asks the host before a program is started. The listener goes to the host with
    /// the report that the wall is ready, and is closed inside.
    WatchPrograms {
        /// The program as (code, jt, jf, k).
        program: Vec<(u16, u8, u8, u32)>,
    },
    /// System-call filters, the last of them installed last.
    Seccomp {
        /// Programs as (code, jt, jf, k).
        programs: Vec<Vec<(u16, u8, u8, u32)>>,
    },
    /// Dies when the process that started the launcher dies.
    DieWithParent,
    /// Becomes the guest: the launcher's caller goes on in this process. No descriptor from 3 on
    /// outlives the execution of a program.
    Serve,
    /// The same where no pid namespace holds everybody together: the guest proves that its signals
    /// do not leave the sandbox, and ends everybody when the launcher is gone.
    ServeConfined,
    /// Starts the program in place of the first process. Descriptors from 3 on are closed.
    Execute {
        /// The executable, a path inside.
        program: PathBuf,
        /// Its arguments, its own name first.
        arguments: Vec<String>,
        /// Its whole environment.
        environment: Vec<(String, String)>,
    },
}

/// A directory that nothing inside can change, in a file system of its own in memory: the files, the
/// command by which programs call tools, and the socket by which they do so themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSocket {
    /// Its path inside.
    pub directory: PathBuf,
    /// What can be read in it.
    pub files: Vec<ToolFile>,
    /// The command, by its path below the directory: a copy of the launcher's own executable.
    pub command: PathBuf,
    /// The socket, by its path below the directory.
    pub socket: PathBuf,
    /// Whether it can be changed after all.
    #[cfg(feature = "weaken")]
    pub writable: bool,
}

/// A file for programs that call tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFile {
    /// Its path below the directory of the tools.
    pub path: PathBuf,
    /// What it holds.
    pub content: String,
}

/// Places whose connections arrive elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirected {
    /// By which protocol they come.
    pub transport: Transport,
    /// The first address of a range.
    pub network: Ipv4Addr,
    /// How many leading bits of an address are those of the range.
    pub prefix: u8,
    /// The one port, or all.
    pub port: Option<u16>,
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What a tree may be used for inside. Set-user-id bits never work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    /// Whether it can be changed.
    pub writable: bool,
    /// Whether its files can be executed.
    pub executable: bool,
    /// Whether device nodes in it work; only for the few nodes of `/dev`.
    pub devices: bool,
}

/// What a host path must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeKind {
    /// A directory.
    Directory,
    /// Anything that is no directory.
    File,
}

/// The size of a file system in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Most bytes.
    pub bytes: u64,
    /// Most files and directories.
    pub inodes: u64,
    /// Whether files in it can be executed.
    pub executable: bool,
}

/// Permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMode(pub u32);

/// A limit that the kernel holds per process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Core dumps, in bytes.
    Core,
    /// Open descriptors.
    OpenFiles,
    /// Processes of the user in this user namespace.
    Processes,
    /// Size of one file, in bytes.
    FileSize,
    /// Address space, in bytes.
    AddressSpace,
    /// Processor time, in seconds.
    CpuSeconds,
    /// Locked memory, in bytes.
    LockedMemory,
    /// Bytes in message queues.
    MessageQueues,
    /// Signals waiting.
    PendingSignals,
    /// Private writable memory of one process, in bytes.
    Data,
}

/// What Landlock allows below a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandlockRule {
    /// The path inside.
    pub path: PathBuf,
    /// Whether it can be changed.
    pub writable: bool,
    /// Whether its files can be executed.
    pub executable: bool,
    /// What can be done with Unix sockets there.
    pub sockets: SocketUse,
}

/// What can be done with Unix sockets below a path. Where the kernel has Landlock 9, one that was
/// made inside can be connected to everywhere, and no other; before, every one can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketUse {
    /// None can be made.
    Refused,
    /// They can be made.
    Made,
    /// Those that the wall itself made can be connected to.
    Reached,
}

/// The most bytes of a file that is copied.
pub const MOST_COPIED: u64 = 1 << 18;

impl Step {
    /// The step's name, as reports and tests use it.
    pub fn name(&self) -> &'static str {
        match self {
            Step::EnterCgroup { .. } => "enter_cgroup",
            Step::OwnCgroups => "own_cgroups",
            Step::PrivateMounts => "private_mounts",
            Step::TakeTree { .. } => "take_tree",
            Step::BecomeUser { .. } => "become_user",
            Step::MakeRoot(_) => "make_root",
            Step::OverlayRoot { .. } => "overlay_root",
            Step::MakeScratch(_) => "make_scratch",
            Step::Directory { .. } => "directory",
            Step::Link { .. } => "link",
            Step::File { .. } => "file",
            Step::CopyFile { .. } => "copy_file",
            Step::AttachTree { .. } => "attach_tree",
            Step::AttachApart { .. } => "attach_apart",
            Step::AttachOverlay { .. } => "attach_overlay",
            Step::AttachScratch { .. } => "attach_scratch",
            Step::Proc { .. } => "proc",
            Step::Terminals => "terminals",
            Step::Mask { .. } => "mask",
            Step::Cover { .. } => "cover",
            Step::Pin { .. } => "pin",
            Step::ReadOnly { .. } => "read_only",
            Step::ForbidUserNamespaces => "forbid_user_namespaces",
            Step::OpenPorts => "open_ports",
            Step::Pivot => "pivot",
            Step::SealRoot => "seal_root",
            Step::Loopback => "loopback",
            Step::WayOut { .. } => "way_out",
            Step::ToolSocket(_) => "tool_socket",
            Step::ProgramFiles(_) => "program_files",
            Step::HostName(_) => "host_name",
            Step::Limit { .. } => "limit",
            Step::NewSession => "new_session",
            Step::WorkingDirectory(_) => "working_directory",
            Step::SealPrivileges => "seal_privileges",
            Step::Landlock { .. } => "landlock",
            Step::LandlockNetwork { .. } => "landlock_network",
            Step::AdoptOrphans => "adopt_orphans",
            Step::WatchPrograms { .. } => "watch_programs",
            Step::Seccomp { .. } => "seccomp",
            Step::DieWithParent => "die_with_parent",
            Step::Serve => "serve",
            Step::ServeConfined => "serve_confined",
            Step::Execute { .. } => "execute",
        }
    }
}

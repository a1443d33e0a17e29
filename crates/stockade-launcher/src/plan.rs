//! A wall as plain data.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything the launcher does, in order. The host sends it as one message, with one descriptor
/// for each [`Step::EnterCgroup`] and [`Step::Leaves`], in order, and then those that the launcher keeps open while the
/// sandbox lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Steps before the clone, with the caller's rights.
    pub outside: Vec<OutsideStep>,
    /// The clone.
    pub birth: Birth,
    /// Steps of the first process inside; the last makes it the guest or executes a program.
    pub inside: Vec<Step>,
    /// Steps to end everything inside and to clean up.
    pub after: Vec<AfterStep>,
    /// Whether the last descriptor is a timer, timerfd_create(2). When it expires the launcher
    /// kills everything inside, because the host itself may be stopped.
    pub has_timer: bool,
}

/// One step before the clone, with the rights of the launcher's caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum OutsideStep {
    /// Clones a host tree with other file owners (an idmapped mount), to be attached later. Needs
    /// rights over the file system itself, so it comes before the clone.
    TakeOwnedTree {
        /// The name by which a later step attaches it.
        name: String,
        /// The host path, without symbolic links.
        path: PathBuf,
        /// How it may be used inside.
        attributes: Attributes,
        /// The required file type.
        kind: TreeKind,
        /// Owners on disk, and the host ids that they map to.
        users: IdMap,
        /// The same for groups.
        groups: IdMap,
    },
}

/// One step of the launcher after the sandbox has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum AfterStep {
    /// Kills everything in a version 2 cgroup.
    KillCgroup {
        /// Its `cgroup.kill`.
        file: PathBuf,
    },
    /// Thaws the version 1 cgroups directly below one: the kernel ends no frozen process.
    ThawCgroups {
        /// The directory of the cgroup above them.
        directory: PathBuf,
    },
    /// Removes a directory with everything below it. No process may use it any more.
    RemoveTree {
        /// The directory.
        directory: PathBuf,
    },
    /// Removes a cgroup that has become empty, and the empty groups directly below it.
    RemoveCgroup {
        /// Its directory.
        directory: PathBuf,
    },
}

/// How the launcher creates the first process inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Birth {
    /// What groups the processes of the sandbox.
    pub family: Family,
    /// The version 2 cgroup to clone into.
    pub cgroup: Option<PathBuf>,
    /// Namespaces shared with the host.
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

/// What groups the processes of a sandbox, so that all of them end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Family {
    /// Namespaces of their own: user, mount, pid, network, ipc and uts.
    Namespaces {
        /// User ids inside and outside.
        users: IdMap,
        /// Group ids inside and outside.
        groups: IdMap,
        /// What writes these id maps.
        mapper: Mapper,
    },
    /// They descend from the launcher, which signals all of them at once.
    Descendants(Reach),
}

/// What writes the id maps of a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mapper {
    /// The launcher: any ids as root, otherwise only the caller's own.
    Launcher,
    /// [`NEWUIDMAP`] and [`NEWGIDMAP`], which map the ids that the host grants to an ordinary user.
    Helpers,
}

/// The program that maps user ids for ordinary users, newuidmap(1).
pub const NEWUIDMAP: &str = "/usr/bin/newuidmap";

/// The program that maps group ids for ordinary users, newgidmap(1).
pub const NEWGIDMAP: &str = "/usr/bin/newgidmap";

/// How the launcher signals all its descendants and no other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// A Landlock domain that signals do not leave.
    Domain,
    /// A user id and the next one, which belong to this sandbox alone.
    User(u32),
}

/// A range of ids inside and outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdMap {
    /// The first id inside.
    pub inside: u32,
    /// The first id outside.
    pub outside: u32,
    /// The length of the range.
    pub count: u32,
}

/// One step inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Step {
    /// Enters a version 1 cgroup through the next descriptor of the plan: the kernel checks the
    /// rights of the process that opened it. A process that moves itself need not wait for RCU.
    EnterCgroup {
        /// The `tasks` file, for reports.
        file: PathBuf,
    },
    /// Keeps the next descriptor of the plan for the guest: a socket on which the host sends the
    /// files of cgroup leaves, one leaf for each execution.
    Leaves,
    /// Unshares the cgroup namespace, which makes the entered cgroups its roots.
    OwnCgroups,
    /// Makes mounts private: no mount event goes to or comes from the host.
    PrivateMounts,
    /// Clones a host tree, to be attached later. Before the ids change: root loses its rights to
    /// the host's files with that.
    TakeTree {
        /// The name by which a later step attaches it.
        name: String,
        /// The host path, without symbolic links.
        path: PathBuf,
        /// How it may be used inside.
        attributes: Attributes,
        /// The required file type.
        kind: TreeKind,
    },
    /// Sets the ids of everything inside; keeps capabilities in the user namespace until sealed.
    BecomeUser {
        /// The user id inside.
        user: u32,
        /// The group id inside.
        group: u32,
    },
    /// Makes the new root, an empty file system in memory.
    MakeRoot(Memory),
    /// Makes a taken tree the new root, under an overlay for the entries that later steps create.
    OverlayRoot {
        /// The tree's name.
        name: String,
    },
    /// Makes a second file system in memory for everything writable, so that one limit applies to
    /// all. Before the new root, which covers it.
    MakeScratch(Memory),
    /// Makes a directory in the new root.
    Directory {
        /// Its path inside.
        path: PathBuf,
        /// Its permissions.
        mode: FileMode,
    },
    /// Makes a symbolic link in the new root.
    Link {
        /// Its path inside.
        path: PathBuf,
        /// The link's target.
        target: PathBuf,
    },
    /// Makes a read-only file in the new root.
    File {
        /// Its path inside.
        path: PathBuf,
        /// Its content.
        #[serde(with = "bytes_as_text")]
        content: Vec<u8>,
    },
    /// Copies a small public file of the host, read-only, to the same path in the new root.
    CopyFile {
        /// Its path, without symbolic links.
        path: PathBuf,
    },
    /// Attaches a taken tree; creates the mount point if it is missing.
    AttachTree {
        /// The tree's name.
        name: String,
        /// Its path inside.
        path: PathBuf,
    },
    /// Attaches a taken directory, or one file of it, read-only through an overlay of the sandbox's
    /// own, so that locks and watches on its files are not shared with the host.
    AttachApart {
        /// The tree's name.
        name: String,
        /// The file's name in the directory, for one file.
        part: Option<PathBuf>,
        /// Its path inside.
        path: PathBuf,
        /// Whether files in it can be executed.
        executable: bool,
    },
    /// Attaches a tree under an upper layer in the scratch file system, which takes all changes.
    AttachOverlay {
        /// The tree's name.
        name: String,
        /// Its path inside.
        path: PathBuf,
        /// Whether files in it can be executed.
        executable: bool,
    },
    /// Attaches a new directory of the scratch file system.
    AttachScratch {
        /// Its path inside.
        path: PathBuf,
        /// Its permissions.
        mode: FileMode,
    },
    /// Mounts the sandbox's own `/proc`.
    Proc {
        /// Show only process directories.
        pids_only: bool,
    },
    /// Mounts the sandbox's own terminals at `/dev/pts`.
    Terminals,
    /// Hides a path behind an empty read-only directory or file.
    Mask {
        /// Its path inside.
        path: PathBuf,
    },
    /// Replaces the content of a file. Does nothing if the path does not exist.
    Cover {
        /// Its path inside.
        path: PathBuf,
        /// The new content.
        content: String,
    },
    /// Makes a directory a mount point, which processes inside cannot rename or remove.
    Pin {
        /// Its path inside.
        path: PathBuf,
    },
    /// Makes a part of the new root read-only.
    ReadOnly {
        /// Its path inside.
        path: PathBuf,
    },
    /// Forbids user namespaces inside.
    ForbidUserNamespaces,
    /// Lets unprivileged processes bind every port of the sandbox's network namespace. Before the
    /// kernel settings become read-only.
    OpenPorts,
    /// Makes the new root the root and detaches the old one.
    Pivot,
    /// Makes the root itself read-only.
    SealRoot,
    /// Starts the loopback interface.
    Loopback,
    /// Redirects connections to the network to one address, which the guest serves. After the
    /// loopback interface, and before capabilities are dropped.
    Egress {
        /// Where the guest listens, by TCP and UDP: an additional loopback address.
        listen: SocketAddrV4,
        /// The redirected destinations.
        redirected: Vec<Redirected>,
    },
    /// Makes the tool directory with its sockets, which the guest serves. After the pivot, and
    /// before capabilities are dropped.
    ToolSocket(ToolSocket),
    /// The descriptor limit of each program, if the guest itself needs more.
    ProgramFiles(u64),
    /// Sets the host name inside.
    HostName(String),
    /// Sets a resource limit, soft and hard.
    Limit {
        /// The resource.
        resource: Resource,
        /// The limit.
        amount: u64,
    },
    /// Starts a session without a controlling terminal.
    NewSession,
    /// Sets the working directory.
    WorkingDirectory(PathBuf),
    /// Drops every capability from every set for good, so that execve(2) grants none.
    SealPrivileges,
    /// Enables Landlock for files: denies everything not listed.
    Landlock {
        /// The Landlock version whose rights are all handled; the kernel must support it.
        version: u32,
        /// What is allowed.
        rules: Vec<LandlockRule>,
    },
    /// Enables Landlock for the network: denies bind and connect on every port.
    LandlockNetwork {
        /// The version of Landlock.
        version: u32,
    },
    /// Makes the first process the subreaper of its descendants.
    AdoptOrphans,
    /// Installs a seccomp filter that asks the host before a program starts. The listener goes to
    /// the host with the report that the wall is ready, and is closed inside.
    WatchPrograms {
        /// The BPF program as (code, jt, jf, k).
        program: Vec<(u16, u8, u8, u32)>,
    },
    /// Installs seccomp filters in order.
    Seccomp {
        /// The BPF programs as (code, jt, jf, k).
        programs: Vec<Vec<(u16, u8, u8, u32)>>,
    },
    /// Makes the first process die when the launcher dies.
    DieWithParent,
    /// Becomes the guest: [`crate::launch`] returns in this process. Descriptors from 3 on are
    /// closed on exec.
    Serve,
    /// Like `Serve`, without a pid namespace: the guest checks that its signals do not leave the
    /// sandbox, and kills every process when the launcher is gone.
    ServeConfined,
    /// Executes the program in place of the first process. Descriptors from 3 on are closed.
    Execute {
        /// The executable, a path inside.
        program: PathBuf,
        /// Its arguments, including its own name first.
        arguments: Vec<String>,
        /// Its complete environment.
        environment: Vec<(String, String)>,
    },
}

/// A read-only directory in its own file system in memory: the files, the commands with which
/// programs call tools and report denied commands, and the sockets for both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSocket {
    /// Its path inside.
    pub directory: PathBuf,
    /// The readable files.
    pub files: Vec<ToolFile>,
    /// The paths of the commands below the directory; all are one copy of the launcher's own
    /// executable.
    pub commands: Vec<PathBuf>,
    /// The path of the socket for tool calls below the directory, if programs can call tools.
    pub socket: Option<PathBuf>,
    /// The path of the socket for reports of denied commands, if programs may send any.
    pub denials: Option<PathBuf>,
    /// Whether it stays writable, which weakens the wall.
    #[cfg(feature = "weaken")]
    pub writable: bool,
}

/// A file for programs that call tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFile {
    /// Its path below the tool directory.
    pub path: PathBuf,
    /// Its content.
    pub content: String,
}

/// Destinations whose connections are redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirected {
    /// The transport protocol.
    pub transport: Transport,
    /// The first address of a range.
    pub network: Ipv4Addr,
    /// The prefix length of the range.
    pub prefix: u8,
    /// One port, or all.
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

/// How a tree may be used inside. Set-user-id bits never apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    /// Whether it is writable.
    pub writable: bool,
    /// Whether its files can be executed.
    pub executable: bool,
    /// Whether device nodes in it work; only for the few nodes of `/dev`.
    pub devices: bool,
}

/// The required type of a host path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeKind {
    /// A directory.
    Directory,
    /// Anything but a directory.
    File,
}

/// The size of a file system in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// The maximum number of bytes.
    pub bytes: u64,
    /// The maximum number of files and directories.
    pub inodes: u64,
    /// Whether files in it can be executed.
    pub executable: bool,
}

/// Permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMode(pub u32);

/// A limit that the kernel enforces per process.
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
    /// Pending signals.
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
    /// Whether it is writable.
    pub writable: bool,
    /// Whether its files can be executed.
    pub executable: bool,
    /// The allowed uses of Unix sockets there.
    pub sockets: SocketUse,
}

/// The allowed uses of Unix sockets below a path. With Landlock 9, sockets made inside accept
/// connections everywhere and others do not; older kernels allow connections to any socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketUse {
    /// No socket can be created.
    Refused,
    /// Sockets can be created.
    Made,
    /// Sockets that the wall itself created accept connections.
    Reached,
}

/// The maximum size of a copied file.
pub const MOST_COPIED: u64 = 1 << 18;

impl Step {
    /// The step's name, as in reports and tests.
    pub fn name(&self) -> &'static str {
        match self {
            Step::EnterCgroup { .. } => "enter_cgroup",
            Step::Leaves => "leaves",
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
            Step::Egress { .. } => "egress",
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

/// Bytes as text with one character for each: JSON has no bytes, and a list of numbers is longer.
mod bytes_as_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&bytes.iter().copied().map(char::from).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let byte = |one| u8::try_from(one).map_err(|_| D::Error::custom("it is not a byte"));
        String::deserialize(from)?.chars().map(byte).collect()
    }
}

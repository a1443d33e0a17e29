//! Calls that are allowed with any arguments, grouped by purpose.
//!
//! They cover what the C libraries, CPython, Node, Go, Java, Rust, shells, git and compilers call.
//! Other layers decide access to files, processes and sockets.

/// All groups.
pub(super) const GROUPS: [&str; 11] = [
    START,
    MEMORY,
    THREADS,
    PROCESSES,
    SIGNALS,
    TIME,
    OPEN_FILES,
    PATHS,
    ATTRIBUTES,
    EVENTS,
    SOCKETS_AND_QUEUES,
];

/// The start and the end of a process, and restrictions it sets on itself. Filters and Landlock
/// rules can only restrict further.
const START: &str = "
    execve exit exit_group
    prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
    capget capset getrandom uname sysinfo getcpu umask
    getrlimit getrusage times
";

/// Its own address space.
const MEMORY: &str = "
    brk mmap munmap mremap mprotect madvise mincore msync mseal remap_file_pages
    mlock mlock2 mlockall munlock munlockall
    pkey_alloc pkey_free pkey_mprotect map_shadow_stack membarrier
";

/// Threads and their locks. `uprobe` and `uretprobe` are called by code that the host's tracing
/// inserts into a process, and do nothing for other callers.
const THREADS: &str = "
    set_tid_address gettid set_robust_list get_robust_list rseq
    futex futex_wait futex_wake futex_waitv futex_requeue
    sched_yield sched_getaffinity sched_getattr sched_getparam sched_getscheduler
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval getpriority ioprio_get
    uprobe uretprobe
";

/// Other processes and user ids. Without capabilities a process can only keep its ids.
const PROCESSES: &str = "
    fork vfork wait4 waitid pidfd_open pidfd_send_signal
    getpid getppid getpgid getpgrp setpgid getsid setsid
    getuid geteuid getgid getegid getresuid getresgid getgroups
    setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups
";

/// Signals.
const SIGNALS: &str = "
    kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigreturn
    sigaltstack signalfd signalfd4 pause restart_syscall
";

/// Reading clocks and waiting, but not setting clocks.
const TIME: &str = "
    time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep
    alarm getitimer setitimer
    timer_create timer_delete timer_getoverrun timer_gettime timer_settime
    timerfd_create timerfd_gettime timerfd_settime
";

/// Descriptors that are already open. Without `vmsplice`, which lends memory pages to a pipe.
const OPEN_FILES: &str = "
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek
    close close_range dup dup2 dup3 flock pipe pipe2
    fsync fdatasync sync syncfs sync_file_range fallocate ftruncate fadvise64 readahead cachestat
    sendfile splice tee copy_file_range
";

/// Names in directories.
const PATHS: &str = "
    getdents getdents64 getcwd chdir fchdir
    access faccessat faccessat2 truncate
    mkdir mkdirat rmdir link linkat symlink symlinkat readlink readlinkat
    rename renameat renameat2 unlink unlinkat
";

/// File attributes.
const ATTRIBUTES: &str = "
    stat lstat fstat newfstatat statx statfs fstatfs file_getattr file_setattr
    chown lchown fchown fchownat
    utime utimes futimesat utimensat
    getxattr lgetxattr fgetxattr getxattrat setxattr lsetxattr fsetxattr setxattrat
    listxattr llistxattr flistxattr listxattrat
    removexattr lremovexattr fremovexattr removexattrat
";

/// Waiting for several events at once.
const EVENTS: &str = "
    poll ppoll select pselect6
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    eventfd eventfd2 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
";

/// Communication over allowed sockets, and queues inside the IPC namespace.
const SOCKETS_AND_QUEUES: &str = "
    bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt
    sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    msgget msgsnd msgrcv msgctl semget semop semtimedop semctl shmget shmat shmdt shmctl
";

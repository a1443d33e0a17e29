//! Paths that every sandbox has, independent of its policy.

/// Writable directories that every sandbox has to itself; they end with it.
pub const SCRATCH: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// Device nodes every sandbox has.
pub const DEVICES: [&str; 11] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
];

/// Directories with the interpreter, its libraries and the ordinary programs, read-only.
pub const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Files below `/etc` that programs need; generated for the sandbox, or public on every host.
pub const SETTINGS: [&str; 17] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/fonts",
    "/etc/protocols",
    // Debian's Java has its configuration here, and no TLS without it.
    "/etc/java-8-openjdk",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
];

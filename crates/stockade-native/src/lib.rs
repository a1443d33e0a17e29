//! The native wall: namespaces, cgroups, Landlock and seccomp on the host's own kernel.

pub mod cgroup;

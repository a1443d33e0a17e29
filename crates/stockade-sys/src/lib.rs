//! Safe wrappers over the Linux calls that neither the standard library nor rustix offers.
//!
//! This is the only crate of the workspace that may use `unsafe`; each module that uses it explains
//! why at its top.

mod child;
mod child_work;
mod clone;
mod descriptors;
mod hard_limit;
mod heap;
mod interfaces;
mod kernel_text;
mod kernel_version;
mod kvm;
mod landlock;
mod loopback;
mod memfd;
mod mount;
mod mount_table;
mod netlink;
mod notifications;
mod parent_death;
#[cfg(feature = "probe")]
pub mod probe;
mod random;
mod random_pool;
mod redirect;
mod refused_clone;
mod release;
mod seccomp;
mod signals;
mod spawn;
#[cfg(feature = "probe")]
mod unshare;
mod usage;

pub use child::ends_within;
pub use child_work::run_in_child;
pub use clone::{Cloned, Forked, Namespaces, clone_process, fork_process, unshare_cgroups};
pub use descriptors::{close_inherited_from, close_on_exec, close_on_exec_from};
pub use hard_limit::HardLimit;
pub use heap::keep_freed_memory;
pub use interfaces::interface_addresses;
pub use kernel_text::{kernel_bytes, kernel_text, unescape_path};
pub use kernel_version::kernel_version;
pub use kvm::{KvmError, run_tiny_guest};
pub use landlock::landlock_version;
pub use loopback::{add_loopback_address, bring_up_loopback};
pub use memfd::{SealedFileError, sealed_file};
pub use mount::{set_mount_attributes, set_tree_attributes};
pub use mount_table::MountTable;
pub use notifications::{Notification, continue_call, is_pending, next_notification};
pub use parent_death::kill_with_parent;
pub use random::random_bytes;
pub use random_pool::reseed_kernel_random;
pub use redirect::{Redirect, Transport, redirect_to};
pub use refused_clone::{clone_refused_by_filter, clone3_refused};
pub use release::release_memory;
pub use seccomp::{Instruction, install_filter, install_notifying_filter, set_no_new_privs};
pub use signals::{child_signals, default_signal, ignore_signal, signal_all_processes};
pub use spawn::{Controls, Spawn, spawn};
#[cfg(feature = "probe")]
pub use unshare::unshare_namespaces;
pub use usage::{ChildrenUsage, children_usage};

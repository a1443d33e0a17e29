//! What executes the machine's instructions.

use std::fmt;

use serde::Serialize;
use stockade_policy::Isolation;
use stockade_provider::Obstacle;

/// What executes the machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// KVM: the processor itself.
    Kvm,
    /// QEMU's translator, about ten times slower, which works everywhere.
    Tcg,
}

impl Accelerator {
    /// The name that QEMU uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    /// How strong a machine with it is. A translator is a large program on the host's kernel: the
    /// processor does not separate it from the code inside.
    pub fn isolation(self) -> Isolation {
        match self {
            Accelerator::Kvm => Isolation::Vm,
            Accelerator::Tcg => Isolation::TranslatedVm,
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What machines run with on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A machine has started with KVM.
    Kvm,
    /// KVM does not work, for this reason.
    Tcg(Obstacle),
}

impl Choice {
    pub(crate) fn accelerator(&self) -> Accelerator {
        match self {
            Choice::Kvm => Accelerator::Kvm,
            Choice::Tcg(_) => Accelerator::Tcg,
        }
    }

    /// Why KVM does not work.
    pub(crate) fn obstacle(&self) -> Option<&Obstacle> {
        match self {
            Choice::Kvm => None,
            Choice::Tcg(obstacle) => Some(obstacle),
        }
    }
}

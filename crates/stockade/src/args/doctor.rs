//! Arguments of `stockade doctor`.

use clap::Args;

pub(super) const HELP: &str = "\
Builds a throw-away wall and looks at the host; changes nothing and takes less than two seconds.

Exit codes:
  0    at least one wall can be run here
  125  none can

Examples:
  stockade doctor
  stockade doctor --verbose
  stockade doctor --json
  stockade doctor --apparmor-profile | sudo tee /etc/apparmor.d/stockade";

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// List every control of each wall, and the machine.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print the AppArmor profile that lets this program make user namespaces.
    #[arg(long)]
    pub(crate) apparmor_profile: bool,
    /// Run a guest on /dev/kvm and print the result. The parent kills this process if it hangs.
    #[arg(long, hide = true)]
    pub(crate) try_kvm: bool,
}

//! Arguments of `stockade doctor`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use stockade_backends::provider_names;

pub(super) const HELP: &str = "\
Builds a throw-away wall and looks at the host; changes nothing and takes less than two seconds.

Exit codes:
  0    at least one wall can be run here
  125  none can

Examples:
  stockade doctor
  stockade doctor --verbose
  stockade doctor --json
  stockade doctor --provider aca
  stockade doctor --apparmor-profile | sudo tee /etc/apparmor.d/stockade";

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// List every control of each wall, and the machine.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Look at one wall only.
    ///
    /// For aca this creates a sandbox in Azure, runs one program in it and deletes it, with the
    /// sandbox group that STOCKADE_ACA_RESOURCE_GROUP and the other variables of docs/azure.md name.
    #[arg(
        long,
        value_name = "PROVIDER",
        conflicts_with = "apparmor_profile",
        value_parser = PossibleValuesParser::new(provider_names())
    )]
    pub(crate) provider: Option<String>,
    /// Print the AppArmor profile that lets this program make user namespaces.
    #[arg(long)]
    pub(crate) apparmor_profile: bool,
    /// Run a guest on /dev/kvm and print the result. The parent kills this process if it hangs.
    #[arg(long, hide = true)]
    pub(crate) try_kvm: bool,
}

//! Arguments of `stockade top`.

use clap::Args;

use crate::run::amount::{self, Amount};

pub(super) const HELP: &str = "\
Keys:
  up, down    choose a session
  enter       inspect it: policy, limits, programs, last denials
  p           pause it, or continue it
  k           end it, with all its programs and files
  q           quit

NO_COLOR is respected.";

#[derive(Args)]
pub(crate) struct TopArgs {
    /// Time between two measurements [default: 1s].
    #[arg(long, short = 'n', value_name = "TIME", allow_hyphen_values = true, value_parser = amount::time)]
    pub(crate) interval: Option<Amount>,
}

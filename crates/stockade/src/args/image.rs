//! Arguments of `stockade image`.

mod build;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::run::amount::{self, Amount};

pub(crate) use build::{BuildArgs, HardenedArgs, MachineArgs, Root};

pub(super) const HELP: &str = "\
IMAGE is a name, a digest, or at least twelve of its digits.

Examples:
  stockade image build --hardened
  stockade image build --vm default
  docker save -o agent.tar agent:1
  stockade image import agent.tar
  stockade run --provider native --image agent:1
  stockade image rm agent:1";

#[derive(Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) command: ImageCommand,
}

#[derive(Subcommand)]
pub(crate) enum ImageCommand {
    /// Build the hardened image on the Docker engine, or the image of a virtual machine.
    #[command(after_help = build::HELP)]
    Build(Box<BuildArgs>),
    /// Unpack the image of an archive, for `run --provider native --image`.
    Import(ImportArgs),
    /// List the images.
    Ls,
    /// Remove names, and images without one.
    Rm(RmImageArgs),
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// What `docker save` wrote, or an OCI layout as a tar archive.
    #[arg(value_name = "FILE.tar")]
    pub(crate) file: PathBuf,
    /// The name of the image, which another image may lose [default: those in the archive that
    /// no other image has].
    #[arg(long, value_name = "NAME[:TAG]")]
    pub(crate) name: Option<String>,
    /// The most that its layers may contain without compression [default: 8g].
    #[arg(long, value_name = "SIZE", value_parser = amount::size)]
    pub(crate) max_size: Option<Amount>,
}

#[derive(Args)]
pub(crate) struct RmImageArgs {
    /// Remove images of virtual machines.
    #[arg(long)]
    pub(crate) vm: bool,
    /// The images.
    #[arg(required = true, value_name = "IMAGE")]
    pub(crate) images: Vec<String>,
}

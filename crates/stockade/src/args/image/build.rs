//! Arguments of `stockade image build`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args};
use stockade_image::Pull;

/// What `stockade image build --help` ends with.
pub(super) const HELP: &str = "\
The hardened image is for `run --provider docker`, which prefers it. PATH inside is one directory
with the allowed programs. Network, cloud and package tools such as curl, git, az and apt are denied
by every path, and each attempt is in the record of the run.

The image of a virtual machine is for `run --provider qemu`: a kernel, its modules and a read-only
root.

Examples:
  stockade image build --hardened
  stockade image build --hardened --base my-python:1 --allow cat,ls,grep --name my-hardened:1
  stockade image build --vm default
  stockade image build --vm tools --from oci:tools.tar";

/// What is built.
#[derive(Args)]
#[command(group(ArgGroup::new("what").args(["hardened", "vm"]).required(true)))]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) hardened: HardenedArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

/// The hardened image.
#[derive(Args)]
#[group(skip)]
pub(crate) struct HardenedArgs {
    /// Build the hardened image for the Docker engine.
    #[arg(long)]
    pub(crate) hardened: bool,
    /// The programs in its PATH, in addition to python3 [default: cat,echo,ls,sleep].
    #[arg(long, value_name = "NAMES", requires = "hardened")]
    pub(crate) allow: Vec<String>,
    /// The image to build from, with a python3 [default: python:3.11-slim].
    #[arg(long, value_name = "IMAGE", requires = "hardened")]
    pub(crate) base: Option<String>,
    /// The name of the result [default: agt-sandbox/python-minimal-path:3.11].
    #[arg(long, value_name = "NAME[:TAG]", requires = "hardened")]
    pub(crate) name: Option<String>,
    /// Let the engine download the base image: never, missing or always [default: never].
    #[arg(
        long,
        value_name = "WHEN",
        requires = "hardened",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Pull::NAMES)
    )]
    pub(crate) pull: Option<String>,
    /// The address of the Docker engine.
    #[arg(long, value_name = "URL", requires = "hardened")]
    pub(crate) docker_url: Option<String>,
}

/// The image of a virtual machine: a kernel, its modules and a read-only root.
#[derive(Args)]
#[group(skip)]
pub(crate) struct MachineArgs {
    /// Build the image of a virtual machine under this name; one of this name is replaced.
    ///
    /// Machines start from `default` unless --image names another.
    #[arg(long, value_name = "NAME")]
    pub(crate) vm: Option<String>,
    /// What the root is made of [default: debian].
    ///
    /// `debian` downloads packages of this host's distribution with apt. `dir:PATH` takes a
    /// directory with the files of a Linux system, and `oci:FILE` what `docker save` wrote, or an
    /// OCI layout as a tar archive.
    #[arg(
        long,
        value_name = "ROOT",
        default_value = "debian",
        hide_default_value = true,
        requires = "vm"
    )]
    pub(crate) from: Root,
    /// Use a kernel that has all drivers built in [default: that of the distribution's package].
    #[arg(long, value_name = "FILE", requires = "vm")]
    pub(crate) kernel: Option<PathBuf>,
}

/// What a root is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// Packages of the host's distribution.
    Debian,
    /// A directory.
    Directory(PathBuf),
    /// An archive with an image.
    Archive(PathBuf),
}

impl FromStr for Root {
    type Err = String;

    fn from_str(text: &str) -> Result<Root, String> {
        match text.split_once(':') {
            None if text == "debian" => Ok(Root::Debian),
            Some(("dir", path)) if !path.is_empty() => Ok(Root::Directory(path.into())),
            Some(("oci", path)) if !path.is_empty() => Ok(Root::Archive(path.into())),
            Some(("iso" | "qcow2" | "disk", _)) => {
                Err("disks and installers are not used: name a root, such as debian".to_owned())
            }
            _ => Err("write debian, dir:PATH or oci:FILE".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_packages_a_directory_or_an_archive_and_a_disk_is_refused() {
        assert_eq!("debian".parse(), Ok(Root::Debian));
        assert_eq!("dir:/srv/root".parse(), Ok(Root::Directory("/srv/root".into())));
        assert_eq!("oci:image.tar".parse(), Ok(Root::Archive("image.tar".into())));
        for wrong in ["", "dir:", "oci:", "/srv", "ubuntu", "iso:debian.iso"] {
            assert!(wrong.parse::<Root>().is_err(), "{wrong}");
        }
    }
}

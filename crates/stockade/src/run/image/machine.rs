//! The image of a virtual machine, a user in it, and a disk instead of its root.

use std::path::PathBuf;

use stockade_backends::machine_images;
use stockade_image::{ImageConfig, ImageUser, user_in};
use stockade_provider::chain;

use super::Image;
use crate::Problem;
use crate::args::SandboxArgs;

/// The image whose kernel starts a disk, if the caller names none.
pub(super) const DEFAULT: &str = "default";

/// The wall that starts from images of virtual machines.
pub(super) const WALL: &str = "qemu";

/// Finds an image by name. Its root is a file, so it names no program of its own.
pub(super) fn find(name: &str, user: Option<&str>) -> Result<Image, Problem> {
    let store = machine_images().ok_or_else(|| {
        let message = "there is no directory for images: neither XDG_DATA_HOME nor HOME is set";
        Problem::new(message, "set HOME")
    })?;
    let image = store.find(name).map_err(|error| Problem::new(chain(&error), error.remedy()))?;
    let user = user.map(|wanted| user_of(&image.passwd(), wanted)).transpose()?;
    Ok(Image {
        // The name finds it again; the start checks every file.
        id: image.name,
        directory: None,
        disk: None,
        config: ImageConfig::default(),
        user,
        has_own_user: false,
        home: None,
        variables: Vec::new(),
        dropped: Vec::new(),
    })
}

/// The disk that replaces the files of the image. `wall` is the wall that the caller named.
pub(super) fn disk(args: &SandboxArgs, wall: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    let Some(file) = &args.vm_disk else { return Ok(None) };
    if wall != Some(WALL) {
        let message = format!("--vm-disk {}: only a virtual machine has disks", file.display());
        return Err(Problem::new(message, "add --provider qemu"));
    }
    let found = file.canonicalize().map_err(|error| {
        let message = format!("cannot use --vm-disk {}: {error}", file.display());
        Problem::new(message, "name a qcow2 file that you can read")
    })?;
    Ok(Some(found))
}

/// Refuses installers and cloud-init, which would decide what a machine runs before the policy does.
pub(super) fn refuse_installers(args: &SandboxArgs) -> Result<(), Problem> {
    for (flag, value) in [("--vm-iso", &args.vm_iso), ("--cloud-init", &args.cloud_init)] {
        if let Some(file) = value {
            let message = format!(
                "{flag} {}: machines start from images that Stockade built, not from installers",
                file.display()
            );
            let remedy = "unpack its files into a directory and use `stockade image build --vm NAME \
                          --from dir:PATH`, then --image NAME";
            return Err(Problem::new(message, remedy));
        }
    }
    Ok(())
}

/// A user of the image. Root is allowed: it is root of a machine that is thrown away.
fn user_of(passwd: &str, wanted: &str) -> Result<ImageUser, Problem> {
    if ["root", "0"].contains(&wanted) {
        return Ok(ImageUser { user: 0, group: 0, home: Some("/tmp".to_owned()) });
    }
    let user = user_in(passwd, wanted);
    user.map_err(|error| Problem::new(format!("--user: {error}"), error.remedy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_a_machine_may_be_chosen_and_an_unknown_user_may_not() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n";
        assert_eq!(user_of(passwd, "root").unwrap().user, 0);
        assert_eq!(user_of(passwd, "agent").unwrap().user, 1000);
        assert!(user_of(passwd, "nobody-else").is_err());
    }
}

//! The recipe of the hardened image: which programs it allows and which it denies.

use crate::ImageConfig;

/// The recipe, which `docker build` takes too.
pub const HARDENED_RECIPE: &str = include_str!("../../../docker/Dockerfile.sandbox");

/// The only directory in the PATH of the hardened image.
pub const HARDENED_PATH: &str = "/usr/local/sandbox-bin";

/// The program that is always in its PATH.
pub const ALWAYS_ALLOWED: &str = "python3";

/// The names of the programs that the hardened image denies.
pub fn denied_names() -> impl Iterator<Item = &'static str> {
    words_of("denied=\"").chain(words_of("members=\""))
}

/// The names of the programs that it allows by default.
pub fn default_names() -> impl Iterator<Item = &'static str> {
    words_of("ARG ALLOWED_BIN_NAMES=\"")
}

/// The words in quotes after a text of the recipe.
fn words_of(start: &'static str) -> impl Iterator<Item = &'static str> {
    let quoted = HARDENED_RECIPE.split_once(start).and_then(|(_, rest)| rest.split_once('"'));
    quoted.map_or("", |(words, _)| words).split_whitespace().filter(|word| *word != "\\")
}

impl ImageConfig {
    /// Whether the image has only the directory of the hardened image in its PATH, so that stubs in
    /// it may report to the host. Such an image may still have other programs there.
    pub fn has_hardened_path(&self) -> bool {
        self.search_path().as_deref() == Some(HARDENED_PATH)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn default_programs_of_the_hardened_image_are_five_and_none_reaches_out() {
        let allowed: Vec<&str> = default_names().collect();
        assert_eq!(allowed, ["python3", "cat", "echo", "ls", "sleep"]);
        // Written here and not read from the recipe, so that both must change.
        let never = [
            "curl",
            "wget",
            "ssh",
            "scp",
            "sftp",
            "git",
            "az",
            "aws",
            "gcloud",
            "gsutil",
            "kubectl",
            "terraform",
            "helm",
            "ansible",
            "ansible-playbook",
            "apt",
            "apt-get",
            "dpkg",
            "pip",
            "pip3",
            "npm",
            "nc",
            "socat",
            "docker",
            "podman",
            "rsync",
            "telnet",
        ];
        let denied: BTreeSet<&str> = denied_names().collect();
        for name in never {
            assert!(!allowed.contains(&name), "{name} is allowed");
            assert!(denied.contains(name), "{name} is not denied");
        }
        assert!(allowed.iter().all(|name| !denied.contains(name)), "{allowed:?}");
    }

    #[test]
    fn every_denied_name_is_listed_once_and_is_plain() {
        let names: Vec<&str> = denied_names().collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert!(names.len() > 100, "{names:?}");
        assert_eq!(names.len(), distinct.len());
        for name in names {
            let plain =
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
            assert!(plain, "{name}");
        }
    }

    #[test]
    fn image_with_another_path_is_not_the_hardened_one() {
        let with = |path: &str| ImageConfig {
            environment: vec![format!("PATH={path}")],
            ..ImageConfig::default()
        };
        assert!(with("/usr/local/sandbox-bin").has_hardened_path());
        for path in ["", "/usr/local/sandbox-bin:/usr/bin", "/usr/bin:/usr/local/sandbox-bin"] {
            assert!(!with(path).has_hardened_path(), "{path}");
        }
        assert!(!ImageConfig::default().has_hardened_path());
    }
}

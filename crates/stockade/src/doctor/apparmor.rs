//! The AppArmor profile for the path of this program. Pure.

use std::path::Path;

/// The profile as it is shipped.
const SHIPPED: &str = include_str!("../../../../packaging/apparmor/stockade");

/// The path in the shipped profile.
const PLACE: &str = "\"/usr/bin/stockade\"";

/// The profile for a program at this path.
pub(super) fn profile(program: &Path) -> String {
    SHIPPED.replace(PLACE, &quoted(&program.to_string_lossy()))
}

/// A path in a profile's syntax: quoted, with special characters escaped.
fn quoted(path: &str) -> String {
    let mut quoted = String::from("\"");
    for character in path.chars() {
        if "\\\"*?[]{}^@".contains(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apparmor_profile_names_the_path_of_the_program() {
        let profile = profile(Path::new("/home/a b/{x}*/stockade"));
        let attached = "profile stockade \"/home/a b/\\{x\\}\\*/stockade\" flags=(unconfined) {\n";
        assert!(profile.contains(&format!("\n{attached}  userns,\n")), "{profile}");
        assert!(!profile.contains(PLACE), "{profile}");
    }
}

//! The AppArmor profile for the place where this program is. Pure.

use std::path::Path;

/// The profile as it is shipped.
const SHIPPED: &str = include_str!("../../../../packaging/apparmor/stockade");

/// The place that the shipped profile is for.
const PLACE: &str = "\"/usr/bin/stockade\"";

/// The profile for a program.
pub(super) fn profile(program: &Path) -> String {
    SHIPPED.replace(PLACE, &quoted(&program.to_string_lossy()))
}

/// A path as a profile takes it: in quotes, with every character that means something escaped.
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
    fn profile_allows_user_namespaces_to_the_program_where_it_is() {
        let profile = profile(Path::new("/home/a b/{x}*/stockade"));
        let attached = "profile stockade \"/home/a b/\\{x\\}\\*/stockade\" flags=(unconfined) {\n";
        assert!(profile.contains(&format!("\n{attached}  userns,\n")), "{profile}");
        assert!(!profile.contains(PLACE), "{profile}");
    }
}

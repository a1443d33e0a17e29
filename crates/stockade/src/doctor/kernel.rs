//! The report on a kernel that is older than the native wall supports. Pure.

use super::answer::Runnable;

/// The oldest kernel with everything that the native wall uses.
const OLDEST: (u32, u32) = (5, 15);

/// One line for a kernel before [`OLDEST`]: the walls that passed their trial here, with their
/// strength. `None` on any other kernel.
pub(super) fn warning(release: &str, answer: &[Runnable]) -> Option<String> {
    let (major, minor) = numbers(release)?;
    if (major, minor) >= OLDEST {
        return None;
    }
    let works =
        |wall: &Runnable| format!("{} ({} isolation)", wall.provider, wall.isolation.as_str());
    let walls: Vec<String> = answer.iter().map(works).collect();
    let (oldest_major, oldest_minor) = OLDEST;
    let start = format!(
        "this kernel is Linux {major}.{minor}, and the native wall has its full strength from Linux \
         {oldest_major}.{oldest_minor} on"
    );
    Some(match walls.is_empty() {
        true => format!(
            "{start}; no wall works here: use a newer kernel, or a Docker engine on another machine, \
             with --docker-url"
        ),
        false => format!("{start}; walls that work here: {}", walls.join(", ")),
    })
}

/// The major and minor version of a release such as `5.10.0-23-amd64`.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut fields = release.split(|it: char| !it.is_ascii_digit());
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use stockade_policy::Isolation;
    use stockade_provider::ProviderName;

    use super::*;

    fn wall(name: &'static str, isolation: Isolation) -> Runnable {
        Runnable {
            provider: ProviderName::new(name),
            isolation,
            full_strength: false,
            approximate: Vec::new(),
            unverified: Vec::new(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn kernel_before_5_15_names_the_walls_that_work() {
        let walls = [wall("reduced", Isolation::Reduced), wall("docker", Isolation::UserKernel)];
        let start = "this kernel is Linux 5.10, and the native wall has its full strength from \
                     Linux 5.15 on; ";
        assert_eq!(
            warning("5.10.0-23-amd64", &walls).unwrap(),
            format!(
                "{start}walls that work here: reduced (reduced isolation), docker (user-kernel \
                 isolation)"
            )
        );
        let none = warning("5.10.0-23-amd64", &[]).unwrap();
        assert!(none.starts_with(&format!("{start}no wall works here")), "{none}");
        assert!(none.contains("--docker-url"), "{none}");
    }

    #[test]
    fn only_older_kernels_are_warned_about() {
        let is_old = |release: &str| warning(release, &[]).is_some();
        for old in ["5.14.21", "5.4.0-150-generic", "4.19.0", "3.10.0-1160.el7.x86_64"] {
            assert!(is_old(old), "{old}");
        }
        for new in ["5.15.0", "5.15-rc1", "5.16", "6.1.0-18-amd64", "10.0.0", "unknown", ""] {
            assert!(!is_old(new), "{new}");
        }
    }
}

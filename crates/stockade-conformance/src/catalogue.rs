//! Every probe, grouped by class of attack.

mod files;
mod kernel;
mod limits;
mod lives;
mod shared;
mod tools;

use crate::probe::Probe;

/// The classes whose ids count towards the required sixty.
pub(crate) const COUNTED: &str = "ABDEFGIJO";

/// Every probe in the order of ids; the check for leftovers of all runs comes last.
pub fn catalogue() -> impl Iterator<Item = &'static Probe> {
    let classes: [&'static [Probe]; 11] = [
        files::READING,
        files::WRITING,
        kernel::PLACES,
        kernel::CALLS,
        shared::POSTURE,
        shared::CHANNELS,
        shared::NETWORK,
        limits::LIMITS,
        lives::LIVES,
        lives::FAILING,
        tools::TOOLS,
    ];
    classes.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_and_in_order_and_there_are_enough() {
        let ids: Vec<&str> = catalogue().map(|probe| probe.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(ids.len(), sorted.len(), "an id occurs twice");
        let counted = ids.iter().filter(|id| COUNTED.contains(&id[..1])).count();
        assert!(counted >= 65, "{counted}");
    }
}

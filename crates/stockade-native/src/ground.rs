//! What a sandbox stands on: its ids, the group it is in, and its first process. None of that
//! depends on a policy, so that it can be there before anybody has asked for a sandbox.
//!
//! ```text
//! begun ahead ── the same beginning is wanted ──▶ used
//!      └──────── another one, or none ──────────▶ dropped: the launcher takes it down
//! ```

use std::os::fd::BorrowedFd;

use stockade_cgroup::{Controller, GroupName, Layout, Unfinished};
use stockade_launcher::{Beginning, OutsideStep};

use crate::error::StartError;
use crate::id_range::IdRange;
use crate::launch::{Begun, Waiting};
use crate::plan::{Ids, beginning};

/// Ids and a group of a sandbox's own.
pub(crate) struct Ground {
    range: Option<IdRange>,
    /// None where cgroups cannot hold anything.
    group: Option<Unfinished>,
}

impl Ground {
    pub(crate) fn lay(layout: &Layout) -> Result<Ground, StartError> {
        let range = match rustix::process::geteuid().is_root() {
            true => Some(IdRange::claim()?),
            false => None,
        };
        let group = match layout.has(Controller::Kill) {
            true => Some(Unfinished::begin(layout, GroupName::new()?)?),
            false => None,
        };
        Ok(Ground { range, group })
    }

    /// The first of the host's ids that the sandbox has to itself.
    pub(crate) fn first_id(&self) -> Option<u32> {
        self.range.as_ref().map(|range| range.first)
    }

    /// How a sandbox begins here.
    pub(crate) fn beginning(&self, outside: Vec<OutsideStep>, layout: &Layout) -> Beginning {
        let (seat, removal) = match &self.group {
            Some(group) => (group.seat(), group.removal(layout)),
            None => Default::default(),
        };
        let beginning = beginning(Ids::of_caller(self.first_id()), outside, seat, &removal);
        #[cfg(feature = "weaken")]
        let beginning = crate::weaken::beginning(beginning);
        beginning
    }

    /// The group, which still has no limits.
    pub(crate) fn into_group(self) -> Option<Unfinished> {
        self.group
    }

    /// What the launcher holds as long as the sandbox lives.
    fn kept(&self) -> Vec<BorrowedFd<'_>> {
        self.range.iter().map(IdRange::lock).collect()
    }
}

/// A sandbox of which only the first process is there, and waits for its steps.
pub(crate) struct Begin {
    pub(crate) ground: Ground,
    pub(crate) begun: Begun,
}

impl Begin {
    /// Begins one, with a launcher that is there already or a new one.
    fn with(
        launcher: Option<Waiting>,
        layout: &Layout,
        outside: impl Fn(&Ground) -> Vec<OutsideStep>,
    ) -> Result<Begin, StartError> {
        let ground = Ground::lay(layout)?;
        let beginning = ground.beginning(outside(&ground), layout);
        let launcher = launcher.map_or_else(Waiting::start, Ok)?;
        let begun = launcher.begin(&beginning, &ground.kept())?;
        Ok(Begin { ground, begun })
    }
}

/// What was started before a sandbox was asked for.
#[derive(Default)]
pub(crate) enum Ahead {
    /// Nothing, or it was taken.
    #[default]
    Nothing,
    /// A launcher alone.
    Launcher(Waiting),
    /// A sandbox, as far as it could be foreseen.
    Begun(Foreseen),
}

impl Ahead {
    /// Starts a launcher.
    pub(crate) fn start() -> Result<Ahead, StartError> {
        Waiting::start().map(Ahead::Launcher)
    }

    /// Begins a sandbox which shows nothing whose owners are changed.
    pub(crate) fn foresee<'l>(layout: impl FnOnce() -> &'l Layout) -> Result<Ahead, StartError> {
        // The launcher comes first: another processor starts it while the ground is looked at.
        let launcher = Waiting::start()?;
        let layout = layout();
        let begin = Begin::with(Some(launcher), layout, |_| Vec::new())?;
        let beginning = begin.ground.beginning(Vec::new(), layout);
        Ok(Ahead::Begun(Foreseen { begin: Some(begin), beginning }))
    }
}

/// A sandbox that nobody has asked for yet.
pub(crate) struct Foreseen {
    /// There until it is used.
    begin: Option<Begin>,
    beginning: Beginning,
}

impl Foreseen {
    /// What was begun, where the same is wanted.
    fn suiting(mut self, beginning: impl Fn(&Ground) -> Beginning) -> Option<Begin> {
        let is_wanted = |begin: &mut Begin| beginning(&begin.ground) == self.beginning;
        self.begin.take_if(is_wanted)
    }
}

impl Drop for Foreseen {
    fn drop(&mut self) {
        let Some(Begin { ground, begun }) = self.begin.take() else { return };
        let is_launched = begun.end();
        // The launcher takes the group with it; where there is none, the group goes by itself.
        if let Some(group) = ground.group.filter(|_| is_launched) {
            group.hand_over();
        }
    }
}

/// Begins a sandbox, or takes the one that was begun ahead where it begins as this one does.
pub(crate) fn begin(
    ahead: Ahead,
    layout: &Layout,
    outside: impl Fn(&Ground) -> Vec<OutsideStep>,
) -> Result<Begin, StartError> {
    let launcher = match ahead {
        Ahead::Nothing => None,
        Ahead::Launcher(launcher) => Some(launcher),
        Ahead::Begun(foreseen) => {
            let wanted = |ground: &Ground| ground.beginning(outside(ground), layout);
            match foreseen.suiting(wanted) {
                Some(begin) => return Ok(begin),
                None => None,
            }
        }
    };
    Begin::with(launcher, layout, outside)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use stockade_launcher::{Attributes, IdMap, TreeKind};

    use super::*;

    fn begun_ahead(layout: &Layout) -> (Ahead, Beginning) {
        let ahead = Ahead::foresee(|| layout).expect("the ground can be laid here");
        let Ahead::Begun(begun) = &ahead else { panic!("nothing was begun") };
        let beginning = begun.beginning.clone();
        (ahead, beginning)
    }

    /// The group of a beginning, where groups can be made.
    fn seat(beginning: &Beginning) -> Option<PathBuf> {
        beginning.birth.cgroup.clone()
    }

    fn is_gone(beginning: &Beginning) -> bool {
        let deadline = Instant::now() + Duration::from_secs(5);
        let there = || seat(beginning).is_some_and(|seat| seat.exists());
        while there() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        !there()
    }

    #[test]
    fn what_was_begun_ahead_is_used_where_the_same_is_wanted() {
        let layout = Layout::expect();
        let (ahead, foreseen) = begun_ahead(&layout);
        let Begin { ground, begun } = begin(ahead, &layout, |_| Vec::new()).unwrap();
        assert_eq!(ground.beginning(Vec::new(), &layout), foreseen);
        assert!(seat(&foreseen).is_none_or(|seat| seat.exists()));
        drop((begun, ground));
        assert!(is_gone(&foreseen));
    }

    #[test]
    fn what_was_begun_ahead_and_is_not_wanted_leaves_nothing() {
        let layout = Layout::expect();
        let (ahead, foreseen) = begun_ahead(&layout);
        assert!(seat(&foreseen).is_none_or(|seat| seat.exists()));
        drop(ahead);
        assert!(is_gone(&foreseen));
    }

    #[test]
    fn sandbox_that_begins_in_another_way_is_begun_anew() {
        let layout = Layout::expect();
        let (ahead, foreseen) = begun_ahead(&layout);
        let own = IdMap { inside: 0, outside: 0, count: 1 };
        let outside = |_: &Ground| {
            vec![OutsideStep::TakeOwnedTree {
                name: "x".to_owned(),
                path: PathBuf::from("/usr"),
                attributes: Attributes { writable: false, executable: false, devices: false },
                kind: TreeKind::Directory,
                users: own,
                groups: own,
            }]
        };
        let Begin { ground, begun } = begin(ahead, &layout, outside).unwrap();
        let beginning = ground.beginning(outside(&ground), &layout);
        assert_ne!(beginning.outside, foreseen.outside);
        assert!(seat(&beginning).is_none() || seat(&beginning) != seat(&foreseen));
        assert!(is_gone(&foreseen));
        drop((begun, ground));
        assert!(is_gone(&beginning));
    }

    #[test]
    fn launcher_alone_is_started_where_nothing_is_foreseen() {
        let layout = Layout::expect();
        let ahead = Ahead::start().unwrap();
        let Begin { ground, begun } = begin(ahead, &layout, |_| Vec::new()).unwrap();
        let beginning = ground.beginning(Vec::new(), &layout);
        drop((begun, ground));
        assert!(is_gone(&beginning));
    }
}

//! What a sandbox stands on: its ids, the group it is in, and its first process. None of that
//! depends on a policy, so that it can be there before anybody has asked for a sandbox.
//!
//! ```text
//! begun ahead ── the same beginning is wanted ──▶ used
//!      └──────── another one, or none ──────────▶ dropped: the launcher takes it down
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::thread::JoinHandle;

use stockade_launcher::{Beginning, OutsideStep};

use crate::cgroup::{Controller, GroupName, Layout, Unfinished};
use crate::error::StartError;
use crate::id_range::IdRange;
use crate::launch::{Begun, Unstarted, Waiting};
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

/// What a thread of its own has started ahead.
enum Started {
    Waiting(Waiting),
    Begun(Begun),
}

/// A launcher that is started ahead, and as much of a sandbox as was foreseen.
pub(crate) struct Ahead {
    /// What was begun, if it was.
    foreseen: Option<(Ground, Beginning)>,
    started: Option<JoinHandle<Result<Started, StartError>>>,
}

impl Ahead {
    /// Starts a launcher. Without a thread it is started when it is needed.
    pub(crate) fn start() -> Option<(Ahead, Foresee)> {
        let (say, told) = mpsc::channel::<Foreseen>();
        let start = move || {
            let launcher = Unstarted::make()?;
            // What is foreseen is ready sooner than the launcher is.
            match told.recv() {
                Ok(Foreseen { beginning, kept }) => {
                    let kept: Vec<_> = kept.iter().map(AsFd::as_fd).collect();
                    launcher.begin(&beginning, &kept).map(Started::Begun)
                }
                // The other end is dropped where nothing is foreseen.
                Err(mpsc::RecvError) => launcher.start().map(Started::Waiting),
            }
        };
        let named = std::thread::Builder::new().name("stockade-launch".to_owned());
        let started = named.spawn(start).ok()?;
        Some((Ahead { foreseen: None, started: Some(started) }, Foresee(say)))
    }

    /// Begins a sandbox which shows nothing whose owners are changed.
    pub(crate) fn foresee(&mut self, say: Foresee, layout: &Layout) {
        // Whatever fails here fails again when a sandbox is asked for, and is told then.
        let Ok(ground) = Ground::lay(layout) else { return };
        let kept: Result<_, _> = ground.kept().iter().map(BorrowedFd::try_clone_to_owned).collect();
        let Ok(kept) = kept else { return };
        let beginning = ground.beginning(Vec::new(), layout);
        if say.0.send(Foreseen { beginning: beginning.clone(), kept }).is_ok() {
            self.foreseen = Some((ground, beginning));
        }
    }

    fn started(&mut self) -> Option<Started> {
        // A thread that failed or panicked has started nothing.
        self.started.take()?.join().ok()?.ok()
    }
}

/// Tells the launcher what was foreseen.
pub(crate) struct Foresee(mpsc::Sender<Foreseen>);

/// How the launcher begins, and what it holds.
struct Foreseen {
    beginning: Beginning,
    kept: Vec<OwnedFd>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let (started, foreseen) = (self.started(), self.foreseen.take());
        if let (Some(Started::Begun(begun)), Some((ground, _))) = (started, foreseen) {
            // The launcher takes the group with it.
            drop(begun);
            if let Some(group) = ground.group {
                group.hand_over();
            }
        }
    }
}

/// Begins a sandbox, or takes the one that was begun ahead where it begins as this one does.
pub(crate) fn begin(
    ahead: Option<Ahead>,
    layout: &Layout,
    outside: impl Fn(&Ground) -> Vec<OutsideStep>,
) -> Result<Begin, StartError> {
    let Some(mut ahead) = ahead else { return Begin::with(None, layout, outside) };
    let suits = |(ground, beginning): &(Ground, Beginning)| {
        ground.beginning(outside(ground), layout) == *beginning
    };
    if ahead.foreseen.as_ref().is_some_and(|foreseen| !suits(foreseen)) {
        return Begin::with(None, layout, outside);
    }
    match (ahead.started(), ahead.foreseen.take()) {
        (Some(Started::Begun(begun)), Some((ground, _))) => Ok(Begin { ground, begun }),
        (Some(Started::Waiting(launcher)), _) => Begin::with(Some(launcher), layout, outside),
        (Some(Started::Begun(_)) | None, _) => Begin::with(None, layout, outside),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use stockade_launcher::{Attributes, IdMap, TreeKind};

    use super::*;

    fn begun_ahead(layout: &Layout) -> (Ahead, Beginning) {
        let (mut ahead, foresee) = Ahead::start().unwrap();
        ahead.foresee(foresee, layout);
        let (_, beginning) = ahead.foreseen.as_ref().expect("the ground can be laid here");
        let beginning = beginning.clone();
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
        let Begin { ground, begun } = begin(Some(ahead), &layout, |_| Vec::new()).unwrap();
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
        let Begin { ground, begun } = begin(Some(ahead), &layout, outside).unwrap();
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
        let (ahead, foresee) = Ahead::start().unwrap();
        drop(foresee);
        let Begin { ground, begun } = begin(Some(ahead), &layout, |_| Vec::new()).unwrap();
        let beginning = ground.beginning(Vec::new(), &layout);
        drop((begun, ground));
        assert!(is_gone(&beginning));
    }
}

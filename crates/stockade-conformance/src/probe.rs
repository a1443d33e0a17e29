//! A probe as data: an id, the attempt, the expected result, and a control that shows that the
//! attempt works without the wall.

use crate::bench::Bench;
use crate::seen::Seen;
use crate::wall::Wall;

/// The expected result inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Refused, with one of the listed error numbers.
    Blocked,
    /// It works, but only on the sandbox's own objects.
    Virtual,
    /// It works up to a limit, and the report names the limit.
    Limited,
}

/// One entry of the catalogue.
pub struct Probe {
    /// A letter for the class of attack and a number.
    pub id: &'static str,
    /// What the probe tries.
    pub title: &'static str,
    /// The expected result.
    pub class: Class,
    pub(crate) trial: Trial,
}

/// How a probe runs.
pub(crate) enum Trial {
    /// Acts of the executable inside, in order. All must hold.
    Acts(&'static [Act]),
    /// A scene that needs more than one act.
    Scene(Scene),
    /// Nothing to try yet, and why.
    NotApplicable(&'static str),
}

/// A trial that is written as code of the harness.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    /// Shows that the check fails without the wall, or that the refused act works in another form
    /// behind the given wall; returns what happened, or why it did not work.
    pub(crate) control: fn(&Bench, &Wall) -> Result<String, String>,
    /// Runs behind a wall; returns what went wrong.
    pub(crate) play: fn(&Bench, &Wall) -> Result<(), String>,
}

/// One call of the executable inside.
#[derive(Clone, Copy)]
pub(crate) struct Act {
    /// Its words inside.
    pub(crate) words: &'static [&'static str],
    /// Its words without the wall, if they differ.
    pub(crate) without: &'static [&'static str],
    /// A line of shell before both, which opens files or changes limits.
    pub(crate) after: &'static str,
    /// More flags for `stockade run`.
    pub(crate) flags: &'static [&'static str],
    pub(crate) expect: Expect,
    pub(crate) control: ControlSite,
}

/// Where the control runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlSite {
    /// On the host as root.
    Host,
    /// On the host as an unprivileged user.
    HostNobody,
    /// Behind the wall without one layer.
    Without(&'static str),
}

/// What must happen inside. Without the wall the same check must fail.
#[derive(Clone, Copy)]
pub(crate) enum Expect {
    /// Every try fails with an error of the first list. Without the wall one works, or fails with
    /// an error of the second list, which shows that no check stopped it.
    Refused(&'static [&'static str], &'static [&'static str]),
    /// The output contains no canary.
    Hidden,
    /// The same, and the act found something to search.
    Searched,
    /// Exactly this note.
    Note(&'static str),
    /// At most this count.
    Most(i64),
    /// At most this count, and the report names the limit.
    Limited(i64, &'static str),
    /// Killed by this signal.
    Killed(i64),
    /// A custom check.
    Check(fn(&Bench, &Seen) -> Result<(), String>),
}

impl Act {
    pub(crate) const fn new(words: &'static [&'static str], expect: Expect) -> Act {
        Act { words, without: words, after: "", flags: &[], expect, control: ControlSite::Host }
    }

    /// Other words for the control.
    pub(crate) const fn without(self, without: &'static [&'static str]) -> Act {
        Act { without, ..self }
    }

    pub(crate) const fn after(self, after: &'static str) -> Act {
        Act { after, ..self }
    }

    pub(crate) const fn flags(self, flags: &'static [&'static str]) -> Act {
        Act { flags, ..self }
    }

    pub(crate) const fn control(self, control: ControlSite) -> Act {
        Act { control, ..self }
    }
}

/// An act that must fail with one of these errors.
pub(crate) const fn refused(
    words: &'static [&'static str],
    errnos: &'static [&'static str],
) -> Act {
    Act::new(words, Expect::Refused(errnos, &[]))
}

/// The same; the control passes the check and then fails with one of `reached`.
pub(crate) const fn refused_before(
    words: &'static [&'static str],
    errnos: &'static [&'static str],
    reached: &'static [&'static str],
) -> Act {
    Act::new(words, Expect::Refused(errnos, reached))
}

/// A probe of acts that must be refused.
pub(crate) const fn blocked(id: &'static str, title: &'static str, acts: &'static [Act]) -> Probe {
    Probe { id, title, class: Class::Blocked, trial: Trial::Acts(acts) }
}

/// A probe of acts that work on the sandbox's own objects.
pub(crate) const fn virtualised(
    id: &'static str,
    title: &'static str,
    acts: &'static [Act],
) -> Probe {
    Probe { id, title, class: Class::Virtual, trial: Trial::Acts(acts) }
}

/// A probe of acts that reach a limit.
pub(crate) const fn limited(id: &'static str, title: &'static str, acts: &'static [Act]) -> Probe {
    Probe { id, title, class: Class::Limited, trial: Trial::Acts(acts) }
}

/// A probe written as code of the harness.
pub(crate) const fn scene(
    id: &'static str,
    title: &'static str,
    class: Class,
    control: fn(&Bench, &Wall) -> Result<String, String>,
    play: fn(&Bench, &Wall) -> Result<(), String>,
) -> Probe {
    Probe { id, title, class, trial: Trial::Scene(Scene { control, play }) }
}

/// A probe with nothing to try yet.
pub(crate) const fn not_applicable(
    id: &'static str,
    title: &'static str,
    why: &'static str,
) -> Probe {
    Probe { id, title, class: Class::Blocked, trial: Trial::NotApplicable(why) }
}

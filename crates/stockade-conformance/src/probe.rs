//! A probe as data: an id, what is tried, what must happen, and how it is shown that the try works.

use crate::bench::Bench;
use crate::seen::Seen;
use crate::wall::Wall;

/// What must happen inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Refused, with one of the error numbers that are named.
    Blocked,
    /// It works, but only on what is the sandbox's own.
    Virtual,
    /// It goes as far as a limit, and the report names the limit.
    Limited,
}

/// One id of the catalogue.
pub struct Probe {
    /// A letter for the class of attack and a number.
    pub id: &'static str,
    /// What is tried.
    pub title: &'static str,
    /// What must happen.
    pub class: Class,
    pub(crate) trial: Trial,
}

/// How it is tried.
pub(crate) enum Trial {
    /// By acts of the executable inside, one after another. All must hold.
    Acts(&'static [Act]),
    /// By a scene that needs more than one act.
    Scene(Scene),
    /// Not at all with what there is today, and why.
    Never(&'static str),
}

/// A trial that the harness plays itself.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    /// Shows that the judge sees a failure where there is no wall, or that what is refused works
    /// otherwise behind the wall that it is given; what it saw, or why it did not.
    pub(crate) control: fn(&Bench, &Wall) -> Result<String, String>,
    /// Plays it behind a wall; nothing, or what went wrong.
    pub(crate) play: fn(&Bench, &Wall) -> Result<(), String>,
}

/// One call of the executable inside.
#[derive(Clone, Copy)]
pub(crate) struct Act {
    /// Its words inside.
    pub(crate) words: &'static [&'static str],
    /// Its words without the wall, where they are others.
    pub(crate) without: &'static [&'static str],
    /// A line of shell before both, which opens files or changes limits.
    pub(crate) after: &'static str,
    /// More flags for `stockade run`.
    pub(crate) flags: &'static [&'static str],
    pub(crate) expect: Expect,
    pub(crate) control: Control,
}

/// Where the same act is shown to work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// On the host as root.
    Host,
    /// On the host as a user without rights.
    HostNobody,
    /// Behind the wall without one layer.
    Without(&'static str),
}

/// What the judge wants to see inside. Without the wall it must see the opposite.
#[derive(Clone, Copy)]
pub(crate) enum Expect {
    /// Every try is refused with one of these. Without the wall one works, or fails with an error
    /// of the second list, which shows that it was let through.
    Refused(&'static [&'static str], &'static [&'static str]),
    /// No canary in anything that comes back.
    Hidden,
    /// The same, and something was there to be looked at.
    Searched,
    /// Exactly this note.
    Note(&'static str),
    /// At most this count.
    Most(i64),
    /// At most this count, and the report names the limit.
    Limited(i64, &'static str),
    /// Killed by this signal.
    Killed(i64),
    /// Whatever a function says.
    Check(fn(&Bench, &Seen) -> Result<(), String>),
}

impl Act {
    pub(crate) const fn new(words: &'static [&'static str], expect: Expect) -> Act {
        Act { words, without: words, after: "", flags: &[], expect, control: Control::Host }
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

    pub(crate) const fn control(self, control: Control) -> Act {
        Act { control, ..self }
    }
}

/// An act that must be refused with one of these.
pub(crate) const fn refused(
    words: &'static [&'static str],
    errnos: &'static [&'static str],
) -> Act {
    Act::new(words, Expect::Refused(errnos, &[]))
}

/// The same, where the control is let through and then fails with one of these.
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

/// A probe of acts that work on the sandbox's own.
pub(crate) const fn virtualised(
    id: &'static str,
    title: &'static str,
    acts: &'static [Act],
) -> Probe {
    Probe { id, title, class: Class::Virtual, trial: Trial::Acts(acts) }
}

/// A probe of acts that meet a limit.
pub(crate) const fn limited(id: &'static str, title: &'static str, acts: &'static [Act]) -> Probe {
    Probe { id, title, class: Class::Limited, trial: Trial::Acts(acts) }
}

/// A probe that the harness plays itself.
pub(crate) const fn scene(
    id: &'static str,
    title: &'static str,
    class: Class,
    control: fn(&Bench, &Wall) -> Result<String, String>,
    play: fn(&Bench, &Wall) -> Result<(), String>,
) -> Probe {
    Probe { id, title, class, trial: Trial::Scene(Scene { control, play }) }
}

/// A probe for which there is nothing to try yet.
pub(crate) const fn never(id: &'static str, title: &'static str, why: &'static str) -> Probe {
    Probe { id, title, class: Class::Blocked, trial: Trial::Never(why) }
}

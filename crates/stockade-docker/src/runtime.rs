//! The runtimes of an engine, and the kernel that each must show inside.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use stockade_policy::Isolation;

/// A runtime that starts containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub enum Runtime {
    /// runc: namespaces on the host's kernel.
    Runc,
    /// crun: the same, written in C.
    Crun,
    /// gVisor: a kernel in user space.
    Runsc,
    /// Kata Containers: a virtual machine.
    Kata,
}

impl Runtime {
    /// Every runtime, strongest first; of two equally strong ones the engines' own first.
    pub const ALL: [Runtime; 4] = [Runtime::Kata, Runtime::Runsc, Runtime::Runc, Runtime::Crun];

    /// The name by which engines register it.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Runc => "runc",
            Runtime::Crun => "crun",
            Runtime::Runsc => "runsc",
            Runtime::Kata => "kata-runtime",
        }
    }

    /// The strength of a container that it starts.
    pub fn isolation(self) -> Isolation {
        match self {
            Runtime::Runc | Runtime::Crun => Isolation::Container,
            Runtime::Runsc => Isolation::UserKernel,
            Runtime::Kata => Isolation::Vm,
        }
    }

    /// Whether a kernel seen inside is one that this runtime provides.
    pub(crate) fn provides(self, kernel: &Kernel, engine_release: &str) -> bool {
        match self {
            Runtime::Runc | Runtime::Crun => kernel.release == engine_release,
            Runtime::Runsc => kernel.release != engine_release && kernel.is_gvisor(),
            Runtime::Kata => kernel.release != engine_release && !kernel.is_gvisor(),
        }
    }
}

impl From<Runtime> for &'static str {
    fn from(runtime: Runtime) -> &'static str {
        runtime.name()
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The runtime that the caller chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeChoice {
    /// The strongest that starts.
    #[default]
    Auto,
    /// This one and no other.
    Named(Runtime),
}

/// The value of `--runtime` is not a known runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no runtime is called {word:?}; known are auto, runc, crun, runsc and kata-runtime")]
pub struct UnknownRuntime {
    /// The value.
    pub word: String,
}

impl RuntimeChoice {
    /// Every value of `--runtime`.
    pub const NAMES: [&str; 5] = ["auto", "runc", "crun", "runsc", "kata-runtime"];
}

impl FromStr for RuntimeChoice {
    type Err = UnknownRuntime;

    fn from_str(word: &str) -> Result<RuntimeChoice, UnknownRuntime> {
        if word == "auto" {
            return Ok(RuntimeChoice::Auto);
        }
        let named = Runtime::ALL.into_iter().find(|runtime| runtime.name() == word);
        named.map(RuntimeChoice::Named).ok_or_else(|| UnknownRuntime { word: word.to_owned() })
    }
}

/// A kernel, as the guest reports it from inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kernel {
    pub(crate) release: String,
    pub(crate) version: String,
}

impl Kernel {
    /// Parses the guest's line on standard error. The line is hostile: it only selects between
    /// kernels that a runtime may provide, and control characters end up in no message.
    pub(crate) fn parse(errors: &str) -> Option<Kernel> {
        let line = errors.lines().find_map(|line| line.strip_prefix("stockade-guest: kernel "))?;
        let (release, version) = line.split_once(' ')?;
        let is_plain = |text: &str| text.chars().all(|it| !it.is_control()) && text.len() < 300;
        (is_plain(release) && is_plain(version))
            .then(|| Kernel { release: release.to_owned(), version: version.to_owned() })
    }

    /// Every gVisor reports this date. Its release was 4.4.0, and later ones end in its name. Either
    /// is enough, so that gVisor never counts as the kernel of a virtual machine.
    fn is_gvisor(&self) -> bool {
        self.release.ends_with("-gvisor") || self.version.ends_with("Sun Jan 10 15:06:54 PST 2016")
    }

    /// The major and minor version.
    pub(crate) fn numbers(&self) -> (u32, u32) {
        let mut fields = self.release.split(['.', '-']).map(|field| field.parse().unwrap_or(0));
        (fields.next().unwrap_or(0), fields.next().unwrap_or(0))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_gvisor() {
            true => write!(f, "gVisor, which reports Linux {}", self.release),
            false => write!(f, "Linux {}", self.release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_and_another_is_refused() {
        for name in RuntimeChoice::NAMES {
            assert!(name.parse::<RuntimeChoice>().is_ok(), "{name}");
        }
        let error = "runsc ".parse::<RuntimeChoice>().unwrap_err();
        assert_eq!(error, UnknownRuntime { word: "runsc ".to_owned() });
    }

    #[test]
    fn runtime_registered_under_a_stronger_name_shows_the_wrong_kernel() {
        let host = Kernel::parse("stockade-guest: kernel 6.1.0-18 #1 SMP Debian\n").unwrap();
        let other = Kernel::parse("stockade-guest: kernel 6.12.8 #1 SMP kata\n").unwrap();
        let provided =
            |kernel: &Kernel| Runtime::ALL.map(|runtime| runtime.provides(kernel, "6.1.0-18"));
        assert_eq!(provided(&host), [false, false, true, true]);
        assert_eq!(provided(&other), [true, false, false, false]);
    }

    #[test]
    fn old_and_new_gvisor_are_recognized_and_never_count_as_a_virtual_machine() {
        for seen in [
            "4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016",
            "4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016",
            "6.6.0-gvisor #1 SMP PREEMPT",
            "6.6.0 #1 SMP Sun Jan 10 15:06:54 PST 2016",
        ] {
            let kernel = Kernel::parse(&format!("stockade-guest: kernel {seen}\n")).unwrap();
            let provided = Runtime::ALL.map(|runtime| runtime.provides(&kernel, "6.1.0-18"));
            assert_eq!(provided, [false, true, false, false], "{seen}");
            assert!(kernel.to_string().starts_with("gVisor, which reports Linux "), "{kernel}");
        }
        let named = Kernel::parse("stockade-guest: kernel 6.1.0-gvisor #1 SMP own\n").unwrap();
        assert!(!Runtime::Runsc.provides(&named, "6.1.0-gvisor"), "it is the engine's own kernel");
    }

    #[test]
    fn line_of_another_form_is_no_kernel() {
        for wrong in [
            "",
            "kernel 6.1.0 #1",
            "stockade-guest: kernel 6.1.0",
            "stockade-guest: kernel a \u{1b}[m",
        ] {
            assert_eq!(Kernel::parse(wrong), None, "{wrong}");
        }
    }
}

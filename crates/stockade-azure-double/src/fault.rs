//! Faults that tests inject.

use std::time::Duration;

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A token, from any token service.
    Token,
    /// Looking at the sandbox group.
    GroupGet,
    /// Creating the sandbox group.
    GroupPut,
    /// Creating a sandbox.
    Create,
    /// Looking at a sandbox.
    Get,
    /// Listing sandboxes.
    List,
    /// Executing a command.
    Execute,
    /// Reading a file.
    FileGet,
    /// Writing a file.
    FilePut,
    /// Any other request about files.
    FileOther,
    /// Reading the egress decisions.
    Decisions,
    /// Setting the egress policy.
    Egress,
    /// Deleting a sandbox.
    Delete,
    /// Resuming a sandbox.
    Resume,
    /// Any other request.
    Other,
}

/// The fault to inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error with a status, and with the header `Retry-After` if seconds are given.
    Status(u16, Option<u64>),
    /// The response comes after a pause.
    Slow(Duration),
    /// The connection closes in the middle of the response.
    HalfClosed,
    /// The response is not JSON.
    Malformed,
    /// The response redirects to another host.
    Redirect(String),
}

/// A fault for the next requests of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Which requests.
    pub operation: Operation,
    /// The fault to inject.
    pub fault: Fault,
    /// How many of these requests pass before the first that fails.
    pub after: usize,
    /// How many fail.
    pub times: usize,
    /// Whether the request has its effect although its response fails.
    pub takes_effect: bool,
}

impl Injection {
    /// The next requests of a kind fail without effect.
    pub fn of(operation: Operation, fault: Fault, times: usize) -> Injection {
        Injection { operation, fault, after: 0, times, takes_effect: false }
    }

    /// The requests have their effect, and their responses fail.
    #[must_use]
    pub fn with_effect(self) -> Injection {
        Injection { takes_effect: true, ..self }
    }
}

//! The execution for which a task works, so that the events of the task can name it.

use crate::ExecutionId;

tokio::task_local! {
    static CALLER: Option<ExecutionId>;
}

/// Does work for an execution, as far as the wall knows which one. Tasks that the work spawns do
/// not inherit it by themselves: wrap them with `on_behalf_of(caller(), …)`.
///
/// Only the names in records and reports depend on it, because a guest says it.
pub fn on_behalf_of<F: Future>(
    caller: Option<ExecutionId>,
    work: F,
) -> impl Future<Output = F::Output> {
    CALLER.scope(caller, work)
}

/// The execution for which this task works, if the wall knows it.
pub fn caller() -> Option<ExecutionId> {
    CALLER.try_with(|caller| *caller).ok().flatten()
}

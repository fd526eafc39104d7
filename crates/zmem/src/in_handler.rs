//! Records whether a thread is handling a fault.

use std::cell::Cell;

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is handling a fault. During a fault, the thread must not use the
/// heap.
pub fn in_handler() -> bool {
    IN_HANDLER.get()
}

/// Sets whether this thread is handling a fault.
pub(crate) fn set(is_in: bool) {
    IN_HANDLER.set(is_in);
}

//! Catches expected panics: prints nothing and returns the message.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread's panics are expected.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `work`. Returns the result of `work`, or the location and the message of the panic if
/// `work` panics.
pub fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |info| match IS_QUIET.get() {
            true => MESSAGE.set(info.to_string()),
            false => others(info),
        }));
    });
    let was_quiet = IS_QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(was_quiet);
    result.map_err(|_| MESSAGE.take())
}

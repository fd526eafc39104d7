//! Hooks by which tests run code at a given point of a function, in place of a concurrent thread.

/// A point at which a test can run code. Does nothing outside tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn hook(_place: &'static str) {}

#[cfg(test)]
pub(crate) use of_tests::{hook, with_hook};

#[cfg(test)]
mod of_tests {
    use std::cell::RefCell;

    type Hook = (&'static str, Box<dyn FnOnce()>);

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Removes and runs this thread's hook if the hook is for `place`.
    pub(crate) fn hook(place: &'static str) {
        let is_here = HOOK.with_borrow(|hook| hook.as_ref().is_some_and(|(of, _)| *of == place));
        if is_here && let Some((_, work)) = HOOK.take() {
            work();
        }
    }

    /// Calls `work`. When `work` reaches `place` for the first time, calls `between` there.
    pub(crate) fn with_hook<T>(
        place: &'static str,
        between: impl FnOnce() + 'static,
        work: impl FnOnce() -> T,
    ) -> T {
        HOOK.set(Some((place, Box::new(between))));
        let done = work();
        assert!(HOOK.take().is_none(), "it did not come to '{place}'");
        done
    }
}

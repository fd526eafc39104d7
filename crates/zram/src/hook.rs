//! Moments of others' that tests put into our own: what can come in between anywhere comes there
//! for sure.

/// Where a test may have something come in between; nothing elsewhere.
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

    /// Does what this thread is to do there, the first time.
    pub(crate) fn hook(place: &'static str) {
        let is_here = HOOK.with_borrow(|hook| hook.as_ref().is_some_and(|(of, _)| *of == place));
        if is_here && let Some((_, work)) = HOOK.take() {
            work();
        }
    }

    /// Does `work` with what comes in between at `place`, the first time it comes there.
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

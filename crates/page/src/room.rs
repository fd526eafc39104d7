//! Room that is left in the process's address space, where that is limited (`ulimit -v`, `-d`):
//! mappings for pages, which can be refused without harm, leave some to what can't.
//!
//! Nothing here waits or allocates. What is being mapped at the moment counts as taken, so that of
//! two who ask at once one is refused rather than both let in.

use crate::page_size;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// Bytes that all leave who can be refused; and those that mappings for pages leave besides. 0
/// where nobody asked.
static KEPT: AtomicUsize = AtomicUsize::new(0);
static KEPT_OF_PAGES: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are being mapped.
static ASKED: AtomicUsize = AtomicUsize::new(0);

static IS_SHORT: OnceLock<fn() -> bool> = OnceLock::new();

/// Keeps `bytes` of the process's address space, from now on, for what can't be refused: they are
/// left by whoever asks [`is_left`], and by mappings for pages, which leave `for_work` more, so
/// that it is not they alone who get the rest.
pub fn keep(bytes: usize, for_work: usize) {
    KEPT.store(bytes, Relaxed);
    KEPT_OF_PAGES.store(bytes.saturating_add(for_work), Relaxed);
}

/// Has `is_short` be asked, too, whether there is room for more work: it knows whether an
/// allocation was refused. The first one stays.
pub fn ask_too(is_short: fn() -> bool) {
    // The first one stays.
    let _ = IS_SHORT.set(is_short);
}

/// Whether there is room for work that takes `bytes` of address space, beside what is kept.
pub fn is_left(bytes: usize) -> bool {
    let needed = bytes.saturating_add(KEPT.load(Relaxed));
    !IS_SHORT.get().is_some_and(|is_short| is_short()) && left().is_none_or(|left| left >= needed)
}

/// Bytes of address space that may still be mapped and written to; `None` where there is no limit,
/// or it can't be known.
pub fn left() -> Option<usize> {
    let under = |limit, field| {
        let limit = usize::try_from(getrlimit(limit).current?).ok()?;
        Some(limit.saturating_sub(used(field)?))
    };
    [under(Resource::As, ALL), under(Resource::Data, DATA)].into_iter().flatten().min()
}

/// Fields of `statm`: all address space, and what of it can be written and is nobody else's. Each
/// is held against a limit.
const ALL: usize = 0;
const DATA: usize = 5;

/// Bytes of address space that the process has, as the kernel counts them.
fn used(field: usize) -> Option<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/self/statm", flags, Mode::empty()).ok()?;
    let mut text = [0; 256];
    let len = rustix::io::read(file, &mut text).ok()?;
    let digits = text[..len].split(|&byte| byte == b' ').nth(field)?;
    let mut digits = digits.iter().map(|&digit| char::from(digit).to_digit(10));
    let pages = digits.try_fold(0_usize, |pages, digit| Some(10 * pages + digit? as usize))?;
    pages.checked_mul(page_size())
}

/// A mapping that is being made.
pub(crate) struct Asked(usize);

/// Room for a mapping of `bytes`, until it is made, or not.
pub(crate) fn ask(bytes: usize) -> Option<Asked> {
    let before = ASKED.fetch_add(bytes, SeqCst);
    let asked = Asked(bytes);
    let kept = KEPT_OF_PAGES.load(Relaxed);
    let needed = before.saturating_add(bytes).saturating_add(kept);
    (kept == 0 || left().is_none_or(|left| left >= needed)).then_some(asked)
}

impl Drop for Asked {
    fn drop(&mut self) {
        ASKED.fetch_sub(self.0, SeqCst);
    }
}

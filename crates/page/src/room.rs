//! Limited address space (`ulimit -v`, `-d`). A mapping for pages can be refused without harm. So
//! mappings for pages leave some address space free for work that can't be refused.
//!
//! The functions of this module neither wait nor allocate. The bytes of a mapping in progress count
//! as used. So if only one of two concurrent requests fits, only one is granted.

use crate::page_size;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// The bytes of address space that every refusable request leaves free. The initial value is 0;
/// [`keep`] sets it.
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// The bytes of address space that mappings for pages leave free: at least [`KEPT`].
static KEPT_OF_PAGES: AtomicUsize = AtomicUsize::new(0);

/// The total bytes of the mappings that threads are currently creating.
static ASKED: AtomicUsize = AtomicUsize::new(0);

static IS_SHORT: OnceLock<fn() -> bool> = OnceLock::new();

/// Keeps `bytes` of the process's address space free for work that can't be refused. Mappings for
/// pages, and callers of [`is_left`], do not use these bytes. Mappings for pages also leave
/// `for_work` further bytes free. Callers of [`is_left`] are allowed to use the further bytes.
pub fn keep(bytes: usize, for_work: usize) {
    KEPT.store(bytes, Relaxed);
    KEPT_OF_PAGES.store(bytes.saturating_add(for_work), Relaxed);
}

/// Makes [`is_left`] also call `is_short`, which returns whether an allocation was refused. A
/// second call has no effect.
pub fn ask_too(is_short: fn() -> bool) {
    let _ = IS_SHORT.set(is_short);
}

/// Returns whether work is allowed to use `bytes` bytes of address space in addition to the bytes
/// that [`keep`] keeps free.
pub fn is_left(bytes: usize) -> bool {
    let needed = bytes.saturating_add(KEPT.load(Relaxed));
    !IS_SHORT.get().is_some_and(|is_short| is_short()) && left().is_none_or(|left| left >= needed)
}

/// Returns the number of bytes of writable address space that can still be mapped. Returns `None`
/// if there is no limit, or if the bytes in use can't be read.
pub fn left() -> Option<usize> {
    let under = |limit, field| {
        let limit = usize::try_from(getrlimit(limit).current?).ok()?;
        Some(limit.saturating_sub(used(field)?))
    };
    [under(Resource::As, ALL), under(Resource::Data, DATA)].into_iter().flatten().min()
}

/// The field of `statm` for all address space, which `ulimit -v` limits.
const ALL: usize = 0;
/// The field of `statm` for private writable address space, which `ulimit -d` limits.
const DATA: usize = 5;

/// Returns the bytes of the process's address space that the kernel counts in `field`.
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

/// The bytes of a mapping that a thread is creating. The bytes count as used until this value is
/// dropped.
pub(crate) struct Asked(usize);

/// Reserves `bytes` for a mapping, or returns `None` if less address space is left.
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

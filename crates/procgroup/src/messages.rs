//! Messages to the user. Only one process of a group reports each message.

use crate::group::ProcessGroup;
use crate::layout::name_of;
use crate::member::GroupMember;
use crate::policy::EXCEEDED_SHARE;
use crate::sums::largest;
use std::sync::atomic::Ordering::Relaxed;
use zmem::Arena;

/// The bits of three messages: the limit can't be kept; a working set is larger than the limit; a
/// process is traced.
pub(crate) const OVER_LIMIT: u64 = 1;
const LACKING: u64 = 2;
const TRACED: u64 = 4;
/// The bit of the message that the limit was temporarily exceeded.
const EXCEEDED: u64 = 8;

/// Describes a limit that was temporarily exceeded although enough memory could be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The maximum number of bytes that all processes held together.
    pub held: u64,
    /// The ID of the process that held the largest part of `held`.
    pub process: u64,
    /// The name of the program that `process` executes.
    pub name: String,
    /// The number of bytes that `process` held.
    pub most: u64,
}

impl Exceeded {
    /// Records that all processes together hold `held` bytes, if `held` exceeds the limit by more
    /// than a measurement error. The caller has just read the kernel's count of this process's
    /// memory.
    pub(crate) fn note(group: &ProcessGroup, held: u64, limit: u64) {
        let head = group.head();
        let is_most = held > limit.saturating_add(limit / EXCEEDED_SHARE)
            && head.exceeded.fetch_max(held, Relaxed) < held;
        let holder = is_most.then(|| largest(group, |(held, _)| held)).flatten();
        if let Some((nth, process, most)) = holder {
            head.exceeded_process.store(process, Relaxed);
            for (to, from) in head.exceeded_name().into_iter().zip(group.slot(nth).name()) {
                to.store(from.load(Relaxed), Relaxed);
            }
            head.exceeded_most.store(most, Relaxed);
        }
    }

    /// Returns the recorded excess over the limit. Returns `None` if this excess or a limit that
    /// can't be kept was already reported. Also returns `None` if `may_say` returns false, or if
    /// the parent of this process is in the group and will report the excess.
    pub fn take(own: &GroupMember, may_say: impl FnOnce() -> bool) -> Option<Self> {
        let (group, head) = (own.group(), own.group().head());
        let held = head.exceeded.load(Relaxed);
        // `note` stores the process ID after the number of bytes, so the record can still be
        // incomplete.
        let is_recorded = held > 0 && head.exceeded_process.load(Relaxed) != 0;
        let is_wanted = is_recorded && head.reported.load(Relaxed) & OVER_LIMIT == 0;
        let has_parent = || {
            let parent = rustix::process::getppid();
            let nth = parent.and_then(|parent| group.find(parent.as_raw_nonzero().get() as u64));
            // A parent that continues without the runtime reports nothing.
            nth.is_some_and(|nth| group.slot(nth).end.load(Relaxed) == 0)
        };
        let is_taken = is_wanted && takes(group, EXCEEDED, || may_say() && !has_parent());
        is_taken.then(|| Exceeded {
            held,
            process: head.exceeded_process.load(Relaxed),
            name: name_of(head.exceeded_name().map(|word| word.load(Relaxed))),
            most: head.exceeded_most.load(Relaxed),
        })
    }
}

/// Returns the number of bytes by which the limit is too small, if the program has spent more than
/// half of the last 10 s in faults. Only one process of the group gets the number: the first whose
/// `may_say` returns true. `arena` is the arena of this process.
pub fn take_lacking(
    own: &GroupMember,
    arena: &Arena,
    may_say: impl FnOnce() -> bool,
) -> Option<u64> {
    let lacks = arena.lacks()?;
    takes(own.group(), LACKING, may_say).then_some(lacks)
}

/// Returns true in only one process of the group: the first whose `may_say` returns true. That
/// process reports that it is traced.
pub fn takes_traced(own: &GroupMember, may_say: impl FnOnce() -> bool) -> bool {
    takes(own.group(), TRACED, may_say)
}

/// Returns true if no process has reported `message` yet and `may_say` returns true. If so, records
/// that `message` is reported.
pub(crate) fn takes(group: &ProcessGroup, message: u64, may_say: impl FnOnce() -> bool) -> bool {
    let reported = group.head().reported;
    reported.load(Relaxed) & message == 0
        && may_say()
        && reported.fetch_or(message, Relaxed) & message == 0
}

//! Calls that sleep for a relative time (`nanosleep`). If a signal for the runtime interrupts the
//! sleep, the call is issued again for the remaining time.
//!
//! ```text
//!   nanosleep(TIME, LEFT) -> nanosleep(room, room): | seconds, nanoseconds | end |
//!     a signal for the runtime -> room: the time until the end, by the clock -> issued again
//!     a signal of the program  -> room: the kernel wrote the remaining time -> LEFT
//! ```

use crate::clock::monotonic;
use crate::kernel::{EFAULT, EINTR};
use crate::user::words;
use dispatch::{Call, Outcome, write_memory};
use std::time::Duration;

const CLOCKS: [i32; 4] =
    [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];

/// Returns the index of the argument that points to the duration of the sleep. The next argument
/// points to the remaining time.
fn time_at(call: &Call) -> Option<usize> {
    let args = call.args();
    match call.number() as i64 {
        libc::SYS_nanosleep => Some(0),
        // The clocks of processes and threads do not run while their threads sleep.
        libc::SYS_clock_nanosleep
            if args[1] as i32 & libc::TIMER_ABSTIME == 0 && CLOCKS.contains(&(args[0] as i32)) =>
        {
            Some(2)
        }
        _ => None,
    }
}

/// Returns the index of the argument that points to the duration, if the duration lies in the
/// memory of [`Call::room`].
fn kept_at(call: &mut Call) -> Option<usize> {
    let room = call.room().as_ptr().addr();
    time_at(call).filter(|nth| call.args()[*nth] == room)
}

/// Prepares a call that sleeps: copies the duration to the memory of [`Call::room`].
pub(crate) fn keep_time(call: &mut Call) {
    let Some(nth) = time_at(call) else { return };
    let mut args = call.args();
    let Some([seconds, nanoseconds]) = words(args[nth]) else { return };
    // For an invalid duration, the kernel returns an error.
    if let (0..=0x7fff_ffff, 0..1_000_000_000) = (seconds, nanoseconds) {
        let end = monotonic() + Duration::new(seconds as u64, nanoseconds as u32);
        let room = &mut call.room()[..3];
        room.copy_from_slice(&[seconds, nanoseconds, end.as_nanos() as usize]);
        [args[nth], args[nth + 1]] = [room.as_ptr().addr(); 2];
        call.set_args(args);
    }
}

/// Before a call that sleeps is issued again, sets the call's duration to the remaining time.
pub(crate) fn go_on(call: &mut Call) {
    if kept_at(call).is_some() {
        let [seconds, nanoseconds, end, ..] = call.room() else { return };
        let left = Duration::from_nanos(*end as u64).saturating_sub(monotonic());
        (*seconds, *nanoseconds) = (left.as_secs() as usize, left.subsec_nanos() as usize);
    }
}

/// Writes the remaining time to the program's memory if a signal for the program has ended the
/// sleep. Returns the outcome that the program sees.
pub(crate) fn give_time(call: &mut Call, outcome: Outcome) -> Outcome {
    let Some(nth) = kept_at(call) else { return outcome };
    let [seconds, nanoseconds, ..] = *call.room() else { return outcome };
    call.restore();
    let to = call.args()[nth + 1];
    let left = [seconds, nanoseconds].map(usize::to_ne_bytes);
    let is_given = outcome != Outcome::Returned(EINTR) || to == 0;
    if is_given || write_memory(to, left.as_flattened()) {
        return outcome;
    }
    Outcome::Returned(EFAULT)
}

//! System calls on clocks and timers.

use super::trial::{Case, Need, Trial, must};
use libc::*;

/// A time to which no clock can be set, because its nanoseconds exceed a second.
const IMPOSSIBLE: [usize; 2] = [0, 2_000_000_000];
const MONOTONIC: usize = CLOCK_MONOTONIC as usize;

fn event(trial: &mut Trial) -> usize {
    let mut event = [0; 16];
    event[3] = SIGEV_NONE;
    trial.ints(&event)
}

fn timer() -> usize {
    let (mut event, mut timer) = ([0; 16], 0);
    event[3] = SIGEV_NONE;
    must(SYS_timer_create, &[MONOTONIC, event.as_ptr() as usize, &raw mut timer as usize]);
    let timer: i32 = timer;
    timer as usize
}

fn timer_file() -> usize {
    must(SYS_timerfd_create, &[MONOTONIC, 0])
}

pub const CASES: &[Case] = &[
    ("nanosleep", |t| vec![t.words(&[0, 1]), t.room(16, Need::Maybe)]),
    ("clock_nanosleep", |t| vec![MONOTONIC, 0, t.words(&[0, 1]), t.room(16, Need::Maybe)]),
    ("clock_gettime", |t| vec![MONOTONIC, t.output(16)]),
    ("clock_getres", |t| vec![MONOTONIC, t.output(16)]),
    ("clock_settime", |t| vec![0, t.words(&IMPOSSIBLE)]),
    ("clock_adjtime", |t| vec![0, t.zeros(208)]),
    ("adjtimex", |t| vec![t.zeros(208)]),
    ("gettimeofday", |t| vec![t.output(16), t.output(8)]),
    ("settimeofday", |t| vec![t.words(&IMPOSSIBLE), t.room(8, Need::Maybe)]),
    ("time", |t| vec![t.output(8)]),
    ("times", |t| vec![t.output(32)]),
    ("getitimer", |t| vec![0, t.output(32)]),
    ("setitimer", |t| vec![1, t.zeros(32), t.output(32)]),
    ("timer_create", |t| vec![MONOTONIC, event(t), t.output(4)]),
    ("timer_settime", |t| vec![timer(), 0, t.zeros(32), t.output(32)]),
    ("timer_gettime", |t| vec![timer(), t.output(32)]),
    ("timerfd_settime", |t| vec![timer_file(), 0, t.zeros(32), t.output(32)]),
    ("timerfd_gettime", |t| vec![timer_file(), t.output(32)]),
];

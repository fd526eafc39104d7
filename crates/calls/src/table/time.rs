//! Rows of calls that concern clocks and timers.

use crate::argument::Argument::{Plain, Pointee};
use crate::argument::Pointee::Sigevent;
use crate::argument::{both, input, output};
use crate::named::{ENDED, NamedSpec};
use crate::sizes::{INT, TIME, TIMES, TIMEX};
use crate::spec::SimpleClass::Direct;

/// The size in bytes of a `tms`, which holds four counts of ticks.
const TMS: usize = 32;
/// The size of `timezone` in bytes.
const ZONE: usize = 8;

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_nanosleep, input(TIME), output(TIME); waits(ENDED), needed),
    row!(SYS_clock_nanosleep, Plain, Plain, input(TIME), output(TIME); waits(ENDED), needed),
    row!(SYS_clock_gettime, Plain, output(TIME); brief, simple(Direct), needed),
    row!(SYS_clock_settime, Plain, input(TIME)),
    row!(SYS_clock_getres, Plain, output(TIME); brief),
    row!(SYS_clock_adjtime, Plain, both(TIMEX)),
    row!(SYS_adjtimex, both(TIMEX)),
    row!(SYS_gettimeofday, output(TIME), output(ZONE); brief, simple(Direct)),
    row!(SYS_settimeofday, input(TIME), input(ZONE)),
    row!(SYS_times, output(TMS); brief, simple(Direct)),
    row!(SYS_getitimer, Plain, output(TIMES); brief),
    row!(SYS_setitimer, Plain, input(TIMES), output(TIMES); brief),
    row!(SYS_timer_create, Plain, Pointee(Sigevent), output(INT)),
    row!(SYS_timer_settime, Plain, Plain, input(TIMES), output(TIMES)),
    row!(SYS_timer_gettime, Plain, output(TIMES)),
    row!(SYS_timer_getoverrun),
    row!(SYS_timer_delete),
    row!(SYS_timerfd_create),
    row!(SYS_timerfd_settime, Plain, Plain, input(TIMES), output(TIMES)),
    row!(SYS_timerfd_gettime, Plain, output(TIMES)),
];

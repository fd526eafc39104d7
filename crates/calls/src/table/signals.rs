//! Rows of calls that concern signals.

use crate::argument::Argument::{Plain, Pointee};
use crate::argument::Pointee::Stack;
use crate::argument::{input, output};
use crate::named::{ENDED, NamedSpec, accepted, temporary};
use crate::options::INFO;
use crate::sizes::{SIGACTION, SIGINFO, SIGSET, STACK, TIME};
use crate::spec::Special::Signals;
use crate::when::When::Always;

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_rt_sigaction, Plain, input(SIGACTION), output(SIGACTION); is(Signals)),
    row!(SYS_rt_sigprocmask, Plain, input(SIGSET), output(SIGSET); is(Signals)),
    row!(SYS_rt_sigpending, output(SIGSET); needed),
    row!(SYS_rt_sigtimedwait, input(SIGSET), output(SIGINFO), input(TIME);
        is(Signals), waits(ENDED), masks(accepted(0, 3)), needed),
    row!(SYS_rt_sigsuspend, input(SIGSET); is(Signals), waits(ENDED), masks(temporary(0))),
    // The call reads the signal frame at the stack pointer.
    row!(SYS_rt_sigreturn; is(Signals)),
    row!(SYS_rt_sigqueueinfo, Plain, Plain, INFO; needed),
    row!(SYS_rt_tgsigqueueinfo, Plain, Plain, Plain, INFO; needed),
    row!(SYS_pidfd_send_signal, Plain, Plain, INFO),
    row!(SYS_kill; brief, needed),
    row!(SYS_tkill),
    row!(SYS_tgkill; brief, needed),
    // The kernel writes signal frames to the alternate stack when it later delivers signals.
    row!(SYS_sigaltstack, Pointee(Stack), output(STACK); is(Signals), keeps(Always), needed),
    row!(SYS_signalfd4, Plain, input(SIGSET); is(Signals), masks(accepted(1, 2))),
    row!(SYS_restart_syscall),
];

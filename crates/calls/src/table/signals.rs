//! Calls that concern signals.

use crate::named_row::NamedRow;
use crate::options::INFO;
use crate::row::Argument::{Form, Plain};
use crate::row::Form::Stack;
use crate::row::Special::Signals;
use crate::row::{Lasting, input, output};
use crate::sizes::{SIGACTION, SIGINFO, SIGSET, STACK, TIME};

pub(super) const ROWS: &[NamedRow] = &[
    row!(SYS_rt_sigaction, Plain, input(SIGACTION), output(SIGACTION)).is(Signals),
    row!(SYS_rt_sigprocmask, Plain, input(SIGSET), output(SIGSET)).is(Signals),
    row!(SYS_rt_sigpending, output(SIGSET)),
    row!(SYS_rt_sigtimedwait, input(SIGSET), output(SIGINFO), input(TIME)).is(Signals),
    row!(SYS_rt_sigsuspend, input(SIGSET)).is(Signals),
    // The call reads the signal frame at the stack pointer.
    row!(SYS_rt_sigreturn).is(Signals),
    row!(SYS_rt_sigqueueinfo, Plain, Plain, INFO),
    row!(SYS_rt_tgsigqueueinfo, Plain, Plain, Plain, INFO),
    row!(SYS_pidfd_send_signal, Plain, Plain, INFO),
    row!(SYS_kill),
    row!(SYS_tkill),
    row!(SYS_tgkill),
    // The kernel writes signal frames to the stack when it delivers signals.
    row!(SYS_sigaltstack, Form(Stack), output(STACK)).is(Signals).lasts(Lasting::Yes),
    row!(SYS_signalfd4, Plain, input(SIGSET)).is(Signals),
    row!(SYS_restart_syscall),
];

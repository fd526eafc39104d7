//! Arguments whose kind depends on another argument: an operation, a command or an option.
//!
//! If the C library has no name for a number, the number is from the kernel's public headers.

use crate::argument::Argument::{self, By, Plain, Text, Unknown};
use crate::argument::{Access, Choice, INT, Pointee, both, input, inputs, output, outputs};
use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::sizes::{self, FLOCK, SIGINFO, TIME, WORD};

mod ipc;
mod keys;
#[cfg(target_arch = "x86_64")]
mod old;
mod trace;

pub(crate) use ipc::{MSGCTL, SEMCTL, SHMCTL};
pub(crate) use keys::{KEYCTL_1, KEYCTL_2, KEYCTL_3, KEYCTL_4};
#[cfg(target_arch = "x86_64")]
pub(crate) use old::{ARCH_PRCTL, MODIFY_LDT, SYSFS_1, SYSFS_2};
pub(crate) use trace::{PTRACE_ADDRESS, PTRACE_DATA};

/// Returns a choice that depends on the value of an `int` argument.
const fn by_int(argument: u8, cases: &'static [(usize, Argument)], other: Argument) -> Choice {
    Choice { argument, mask: INT, cases, other }
}

/// Returns the kind of an argument that depends on another argument.
const fn of(choice: &'static Choice) -> Argument {
    By(choice)
}

/// The last argument of `fcntl`, which depends on the command. Commands from 1024 on exist only in
/// Linux.
pub(crate) const FCNTL: Argument = of(&by_int(
    1,
    &[
        (5, both(FLOCK)),
        (6, input(FLOCK)),
        (7, input(FLOCK)),
        (36, both(FLOCK)),
        (37, input(FLOCK)),
        (38, input(FLOCK)),
        (15, input(8)),
        (16, output(8)),
        (17, output(8)),
        (1035, output(8)),
        (1036, input(8)),
        (1037, output(8)),
        (1038, input(8)),
    ],
    Plain,
));

/// The low bits of a futex's operation, without the flags for private futexes and the clock.
const FUTEX: usize = 0x7f;
/// The fourth argument of `futex`: a time if the operation waits, otherwise a number.
pub(crate) const FUTEX_TIME: Argument = of(&Choice {
    argument: 1,
    mask: FUTEX,
    cases: &[
        (0, input(TIME)),
        (6, input(TIME)),
        (9, input(TIME)),
        (11, input(TIME)),
        (13, input(TIME)),
    ],
    other: Plain,
});
/// The fifth argument of `futex`: the futex to which waiting threads are moved.
pub(crate) const FUTEX_SECOND: Argument = of(&Choice {
    argument: 1,
    mask: FUTEX,
    cases: &[(3, both(4)), (4, both(4)), (5, both(4)), (11, both(4)), (12, both(4))],
    other: Plain,
});

/// The second argument of `prctl`, which depends on the first argument.
pub(crate) const PRCTL_1: Argument = of(&by_int(
    0,
    &[
        (2, output(4)),
        (5, output(4)),
        (9, output(4)),
        (11, output(4)),
        (15, Text),
        (16, output(16)),
        (19, output(4)),
        (25, output(4)),
        (37, output(4)),
        (40, output(WORD)),
        (0x4155_5856, outputs(Long(2), 1)),
    ],
    Plain,
));
/// The third argument of `prctl`: a filter of system calls, or a description of the address space.
pub(crate) const PRCTL_2: Argument =
    of(&by_int(0, &[(22, Argument::Pointee(Pointee::Filter)), (35, of(&PRCTL_MM))], Plain));
/// A `prctl_mm_map`, which contains the address of an auxiliary vector.
const PRCTL_MM_MAP: Argument = Argument::Pointee(Pointee::Words(
    Access::Read,
    Length::Items { count: Long(3), bytes: 1, more: 0 },
));
const PRCTL_MM: Choice =
    by_int(1, &[(12, inputs(Long(3), 1)), (14, PRCTL_MM_MAP), (15, output(4))], Plain);
/// The fifth argument of `prctl`: a name of a mapping, a cookie, or the selector of a dispatch.
pub(crate) const PRCTL_4: Argument =
    of(&by_int(0, &[(0x5356_4d41, Text), (62, of(&PRCTL_CORE)), (59, input(1))], Plain));
const PRCTL_CORE: Choice = by_int(1, &[(0, output(8))], Plain);

/// The last argument of `seccomp`, which depends on the operation.
pub(crate) const SECCOMP: Argument = of(&by_int(
    0,
    &[(1, Argument::Pointee(Pointee::Filter)), (2, input(4)), (3, output(6))],
    Plain,
));

/// The buffer of `syslog`.
pub(crate) const SYSLOG: Argument = of(&by_int(
    0,
    &[(2, outputs(Int(2), 1)), (3, outputs(Int(2), 1)), (4, outputs(Int(2), 1))],
    Plain,
));

/// The event of `epoll_ctl`, which EPOLL_CTL_DEL ignores.
pub(crate) const EPOLL_EVENT: Argument = of(&by_int(1, &[(2, Plain)], input(sizes::EPOLL_EVENT)));

/// The value of `fsconfig`, which depends on the command.
pub(crate) const FSCONFIG_VALUE: Argument =
    of(&by_int(1, &[(1, Text), (2, inputs(Int(4), 1)), (3, Text), (4, Text)], Plain));

/// The rule of `landlock_add_rule`, which is for a path or for a port.
pub(crate) const LANDLOCK_RULE: Argument =
    of(&by_int(1, &[(1, input(12)), (2, input(16))], Unknown));

/// The last argument of `reboot`, which is a string if the command is LINUX_REBOOT_CMD_RESTART2.
pub(crate) const REBOOT: Argument = of(&by_int(2, &[(0xa1b2_c3d4, Text)], Plain));

/// The last argument of `quotactl`, which depends on the command. The command's low byte is the
/// quota's type.
pub(crate) const QUOTACTL: Argument = of(&quota(0));
pub(crate) const QUOTACTL_FD: Argument = of(&quota(1));
const QUOTA: &[(usize, Argument)] = &[
    (0x8000_0100, Plain),
    (0x8000_0200, Text),
    (0x8000_0300, Plain),
    (0x8000_0400, output(4)),
    (0x8000_0500, output(24)),
    (0x8000_0600, input(24)),
    (0x8000_0700, output(72)),
    (0x8000_0800, input(72)),
    (0x8000_0900, output(72)),
];

const fn quota(argument: u8) -> Choice {
    Choice { argument, mask: 0xffff_ff00, cases: QUOTA, other: Unknown }
}

/// The mount ID that `name_to_handle_at` returns, which has 8 bytes if a flag requests that.
pub(crate) const MOUNT_ID: Argument =
    of(&Choice { argument: 4, mask: 1, cases: &[(1, output(8))], other: output(4) });

/// The argument with which `io_uring_enter` waits: a signal set, a structure, or an offset in
/// registered memory.
pub(crate) const URING_WAIT: Argument = of(&Choice {
    argument: 3,
    mask: 8 | 64,
    cases: &[(0, input(sizes::SIGSET)), (8, Argument::Pointee(Pointee::Getevents))],
    other: Plain,
});
/// The argument of `io_uring_register`: buffers, which the kernel uses after the call, descriptors,
/// or other data.
pub(crate) const URING_REGISTER: Argument = of(&by_int(
    1,
    &[
        (0, Argument::Pointee(Pointee::Iovecs(Access::Both, Int(3)))),
        (1, Plain),
        (2, inputs(Int(3), 4)),
        (3, Plain),
        (4, input(4)),
        (5, Plain),
        (7, input(4)),
        (9, Plain),
        (10, Plain),
        (12, Plain),
        (8, Argument::Buffer(Access::Both, Length::Items { count: Int(3), bytes: 8, more: 16 })),
        (11, inputs(Int(3), 16)),
    ],
    Unknown,
));

/// The `siginfo_t` that is sent with a signal.
pub(crate) const INFO: Argument = input(SIGINFO);

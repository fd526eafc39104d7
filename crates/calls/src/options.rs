//! The kinds of arguments that depend on another argument: an operation, a command or an option.
//!
//! Numbers without a name in the C library are from the kernel's public headers.

use crate::argument::Argument::{self, Plain, Pointee, Text, Unknown};
use crate::argument::Pointee::{Filter, Getevents, Iovecs, Regset, Words};
use crate::argument::{Access, INT, both, input, inputs, output, outputs};
use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::sizes::{
    self, FLOCK, MSGID, MSGINFO, SEMID, SEMINFO, SHM_INFO, SHMID, SHMINFO, SIGINFO, TIME, WORD,
};

/// Creates the kind of an argument that depends on the masked value of argument `$nth`.
macro_rules! by {
    ($nth:expr, $mask:expr; $($($value:literal)|+ => $kind:expr,)* _ => $other:expr) => {
        crate::argument::Argument::By(&crate::argument::Choice {
            argument: $nth,
            mask: $mask,
            cases: &[$($(($value, $kind)),+),*],
            other: $other,
        })
    };
}

/// The last argument of `fcntl`, whose kind depends on the command. Commands from 1024 on exist
/// only in Linux.
pub(crate) const FCNTL: Argument = by!(1, INT;
    5 | 36 => both(FLOCK), 6 | 7 | 37 | 38 => input(FLOCK), 15 | 1036 | 1038 => input(8),
    16 | 17 | 1035 | 1037 => output(8), _ => Plain);

/// The bits of a `futex` operation, without the flags for a private futex and for the clock.
const FUTEX: usize = 0x7f;
/// The fourth argument of `futex`: a timeout if the operation waits, otherwise a number.
pub(crate) const FUTEX_TIME: Argument = by!(1, FUTEX;
    0 | 6 | 9 | 11 | 13 => input(TIME), _ => Plain);
/// The fifth argument of `futex`: the second futex of operations such as FUTEX_REQUEUE and
/// FUTEX_WAKE_OP.
pub(crate) const FUTEX_SECOND: Argument = by!(1, FUTEX; 3 | 4 | 5 | 11 | 12 => both(4), _ => Plain);

/// The second argument of `prctl`, whose kind depends on the first argument.
pub(crate) const PRCTL_1: Argument = by!(0, INT;
    2 | 5 | 9 | 11 | 19 | 25 | 37 => output(4), 15 => Text, 16 => output(16), 40 => output(WORD),
    0x4155_5856 => outputs(Long(2), 1), _ => Plain);
/// The third argument of `prctl`: a filter of system calls, or a description of the address space.
pub(crate) const PRCTL_2: Argument = by!(0, INT;
    22 => Pointee(Filter), 35 => PRCTL_MM, _ => Plain);
/// A `prctl_mm_map`, which contains the address of an auxiliary vector.
const PRCTL_MM_MAP: Argument =
    Pointee(Words(Access::Read, Length::Items { count: Long(3), bytes: 1, more: 0 }));
const PRCTL_MM: Argument = by!(1, INT;
    12 => inputs(Long(3), 1), 14 => PRCTL_MM_MAP, 15 => output(4), _ => Plain);
/// The fifth argument of `prctl`: the name of a mapping, a cookie, or the selector of syscall user
/// dispatch.
pub(crate) const PRCTL_4: Argument = by!(0, INT;
    0x5356_4d41 => Text, 62 => PRCTL_CORE, 59 => input(1), _ => Plain);
const PRCTL_CORE: Argument = by!(1, INT; 0 => output(8), _ => Plain);

/// The last argument of `seccomp`, whose kind depends on the operation.
pub(crate) const SECCOMP: Argument = by!(0, INT;
    1 => Pointee(Filter), 2 => input(4), 3 => output(6), _ => Plain);

pub(crate) const SYSLOG: Argument = by!(0, INT; 2 | 3 | 4 => outputs(Int(2), 1), _ => Plain);

/// The event of `epoll_ctl`. EPOLL_CTL_DEL ignores the event.
pub(crate) const EPOLL_EVENT: Argument = by!(1, INT; 2 => Plain, _ => input(sizes::EPOLL_EVENT));

/// The value of `fsconfig`, whose kind depends on the command.
pub(crate) const FSCONFIG_VALUE: Argument = by!(1, INT;
    1 | 3 | 4 => Text, 2 => inputs(Int(4), 1), _ => Plain);

/// The rule of `landlock_add_rule`: a rule for a path or for a port.
pub(crate) const LANDLOCK_RULE: Argument = by!(1, INT;
    1 => input(12), 2 => input(16), _ => Unknown);

/// The last argument of `reboot`. The argument is a string if the command is
/// LINUX_REBOOT_CMD_RESTART2.
pub(crate) const REBOOT: Argument = by!(2, INT; 0xa1b2_c3d4 => Text, _ => Plain);

/// Creates the kind of an argument that depends on the quota command in argument `$nth`.
macro_rules! quota {
    ($nth:expr) => {
        by!($nth, 0xffff_ff00; 0x8000_0100 | 0x8000_0300 => Plain, 0x8000_0200 => Text,
            0x8000_0400 => output(4), 0x8000_0500 => output(24), 0x8000_0600 => input(24),
            0x8000_0700 | 0x8000_0900 => output(72), 0x8000_0800 => input(72), _ => Unknown)
    };
}

/// The last argument of `quotactl`, whose kind depends on the command. The low byte of the command
/// is the quota type.
pub(crate) const QUOTACTL: Argument = quota!(0);
pub(crate) const QUOTACTL_FD: Argument = quota!(1);

/// The mount ID that `name_to_handle_at` returns. The ID has 8 bytes if AT_HANDLE_MNT_ID_UNIQUE is
/// set, else 4.
pub(crate) const MOUNT_ID: Argument = by!(4, 1; 1 => output(8), _ => output(4));

/// The fifth argument of `io_uring_enter`: a signal set, an `io_uring_getevents_arg`, or an offset
/// in registered memory.
pub(crate) const URING_WAIT: Argument = by!(3, 8 | 64;
    0 => input(sizes::SIGSET), 8 => Pointee(Getevents), _ => Plain);
/// The argument of `io_uring_register`: descriptors, buffers that the kernel uses after the call,
/// or other data.
pub(crate) const URING_REGISTER: Argument = by!(1, INT;
    0 => Pointee(Iovecs(Access::Both, Int(3))), 1 | 3 | 5 | 9 | 10 | 12 => Plain,
    2 => inputs(Int(3), 4), 4 | 7 => input(4),
    8 => Argument::Buffer(Access::Both, Length::Items { count: Int(3), bytes: 8, more: 16 }),
    11 => inputs(Int(3), 16), _ => Unknown);

/// A `siginfo_t` that the call sends with a signal.
pub(crate) const INFO: Argument = input(SIGINFO);

/// The last argument of `semctl`. The kind is unknown for GETALL and SETALL, because no argument
/// holds the number of semaphores in the set.
pub(crate) const SEMCTL: Argument = by!(2, INT;
    1 => input(SEMID), 2 | 18 | 20 => output(SEMID), 3 | 19 => output(SEMINFO), 13 | 17 => Unknown,
    _ => Plain);

pub(crate) const SHMCTL: Argument = by!(1, INT;
    1 => input(SHMID), 2 | 13 | 15 => output(SHMID), 3 => output(SHMINFO), 14 => output(SHM_INFO),
    _ => Plain);

pub(crate) const MSGCTL: Argument = by!(1, INT;
    1 => input(MSGID), 2 | 11 | 13 => output(MSGID), 3 | 12 => output(MSGINFO), _ => Plain);

/// A `keyctl_pkey_params`, which holds the lengths of the later arguments of `keyctl`.
const PARAMS: Argument = input(40);
const KDF_PARAMS: Argument = Pointee(Words(Access::Read, Length::Bytes(56)));

/// The second argument of `keyctl`, whose kind depends on the operation.
pub(crate) const KEYCTL_1: Argument = by!(0, INT;
    1 => Text, 23 => input(12), 25 | 26 | 27 | 28 => PARAMS, 31 => outputs(Long(2), 1), _ => Plain);

/// The third argument of `keyctl`, whose kind depends on the operation.
pub(crate) const KEYCTL_2: Argument = by!(0, INT;
    2 | 12 => inputs(Long(3), 1), 6 | 11 | 17 | 23 => outputs(Long(3), 1),
    10 | 25 | 26 | 27 | 28 | 29 => Text, 20 => Pointee(Iovecs(Access::Read, Long(3))), _ => Plain);

/// The fourth argument of `keyctl`, whose kind depends on the operation.
pub(crate) const KEYCTL_3: Argument = by!(0, INT;
    10 | 24 | 29 => Text, 25 | 26 | 27 | 28 => Unknown, _ => Plain);

/// The fifth argument of `keyctl`, whose kind depends on the operation.
pub(crate) const KEYCTL_4: Argument = by!(0, INT;
    23 => KDF_PARAMS, 24 => output(56), 25 | 26 | 27 | 28 => Unknown, _ => Plain);

/// The sizes in bytes of two register sets of x86-64: the general registers, and the floating-point
/// registers.
const REGISTERS: usize = 27 * 8;
const FLOATING: usize = 512;

/// The third argument of `ptrace`. For PTRACE_PEEKSIGINFO, the argument is an address in the
/// caller's memory. For other requests, the argument is a number or an address in the other
/// process.
pub(crate) const PTRACE_ADDRESS: Argument = by!(0, INT; 0x4209 => input(16), _ => Plain);

/// The fourth argument of `ptrace`, whose kind depends on the request.
pub(crate) const PTRACE_DATA: Argument = by!(0, INT;
    1 | 2 | 3 | 0x4201 => output(WORD), 12 => output(REGISTERS), 13 => input(REGISTERS),
    14 => output(FLOATING), 15 => input(FLOATING), 25 => output(16), 26 => input(16),
    0x4202 => output(SIGINFO), 0x4203 => input(SIGINFO), 0x4204 => Pointee(Regset(Access::Write)),
    0x4205 => Pointee(Regset(Access::Read)), 0x4209 | 0x420c => Argument::Unknown,
    0x420a | 0x420d | 0x420e | 0x420f | 0x4211 => outputs(Long(2), 1),
    0x420b | 0x4210 | 0x4212 => inputs(Long(2), 1), _ => Plain);

/// The second argument of `arch_prctl`, whose kind depends on the operation.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCH_PRCTL: Argument = by!(0, INT;
    0x1003 | 0x1004 | 0x4001 | 0x4003 | 0x5005 => output(WORD),
    0x1021 | 0x1022 | 0x1024 => output(8), _ => Plain);

/// The second argument of `modify_ldt`: a table that the kernel writes, or an entry that the kernel
/// reads.
#[cfg(target_arch = "x86_64")]
pub(crate) const MODIFY_LDT: Argument = by!(0, INT;
    0 | 2 => outputs(Long(2), 1), 1 | 0x11 => inputs(Long(2), 1), _ => Plain);

/// The second and the third argument of `sysfs`, whose kinds depend on the option.
#[cfg(target_arch = "x86_64")]
pub(crate) const SYSFS_1: Argument = by!(0, INT; 1 => Text, _ => Plain);
#[cfg(target_arch = "x86_64")]
pub(crate) const SYSFS_2: Argument = by!(0, INT; 2 => Unknown, _ => Plain);

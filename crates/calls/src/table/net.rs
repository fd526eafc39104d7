//! Rows of calls that concern sockets.

use crate::argument::Access::{Both, Read, Write};
use crate::argument::Argument::{Plain, Pointee};
use crate::argument::Pointee::{Message, Messages, Words};
use crate::argument::{both, from_memory, inputs, output, outputs};
use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named::{NamedSpec, REPEATED, RESTARTED};
use crate::sizes::{INT, TIME};
use crate::spec::SimpleClass::Receive;
use crate::spec::Wait;
use crate::when::When;

/// MSG_ZEROCOPY: the kernel uses the pages until it reports that the transfer is complete.
const fn zero_copy(argument: u8) -> When {
    When::Bits { argument, bits: libc::MSG_ZEROCOPY as usize }
}

/// If a signal interrupts a receive with MSG_WAITALL, the call returns the bytes received before
/// the signal.
const fn unless_all(argument: u8) -> When {
    When::NoBits { argument, bits: libc::MSG_WAITALL as usize }
}

/// The value of a socket option. The value can point to further memory, such as the instructions of
/// a socket filter or the counters of an iptables table.
const OPTION: crate::argument::Argument =
    Pointee(Words(Read, Length::Items { count: Int(4), bytes: 1, more: 0 }));

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_socket),
    row!(SYS_socketpair, Plain, Plain, Plain, output(8)),
    row!(SYS_bind, Plain, inputs(Int(2), 1)),
    row!(SYS_connect, Plain, inputs(Int(2), 1); waits(RESTARTED)),
    row!(SYS_listen),
    row!(SYS_accept, Plain, from_memory(Write, 2), both(INT); waits(REPEATED)),
    row!(SYS_accept4, Plain, from_memory(Write, 2), both(INT); waits(REPEATED)),
    row!(SYS_getsockname, Plain, from_memory(Write, 2), both(INT)),
    row!(SYS_getpeername, Plain, from_memory(Write, 2), both(INT)),
    row!(SYS_shutdown),
    row!(
        SYS_getsockopt,
        Plain,
        Plain,
        Plain,
        Pointee(Words(Both, Length::FromMemory(4))),
        both(INT)
    ),
    row!(SYS_setsockopt, Plain, Plain, Plain, OPTION),
    row!(SYS_sendto, Plain, inputs(Long(2), 1), Plain, Plain, inputs(Int(5), 1);
        keeps(zero_copy(3)), waits(RESTARTED), simple(Receive)),
    row!(SYS_sendmsg, Plain, Pointee(Message(Read)); keeps(zero_copy(2))),
    row!(SYS_sendmmsg, Plain, Pointee(Messages(Read, Int(2))); keeps(zero_copy(3))),
    row!(SYS_recvfrom, Plain, outputs(Long(2), 1), Plain, Plain, from_memory(Write, 5), both(INT);
        waits(Wait { repeats: unless_all(3), ..RESTARTED }), simple(Receive)),
    row!(SYS_recvmsg, Plain, Pointee(Message(Write));
        waits(Wait { repeats: unless_all(2), ..RESTARTED })),
    row!(SYS_recvmmsg, Plain, Pointee(Messages(Write, Int(2))), Plain, Plain, both(TIME)),
];

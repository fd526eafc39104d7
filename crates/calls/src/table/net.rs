//! Calls that concern sockets.

use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named_row::NamedRow;
use crate::row::Access::{Both, Read, Write};
use crate::row::Argument::{Form, Plain};
use crate::row::Form::{Message, Messages, Words};
use crate::row::{Lasting, both, inputs, output, outputs, told};
use crate::sizes::{INT, TIME};

/// A send with MSG_ZEROCOPY: the kernel uses the pages until it reports that the transfer is
/// complete.
const fn zero_copy(argument: u8) -> Lasting {
    Lasting::Bits { argument, bits: libc::MSG_ZEROCOPY as usize }
}

/// The value of an option, which may point to further memory: a filter's instructions, a table's
/// counters.
const OPTION: crate::row::Argument =
    Form(Words(Read, Length::Items { count: Int(4), bytes: 1, more: 0 }));

pub(super) const ROWS: &[NamedRow] = &[
    row!(SYS_socket),
    row!(SYS_socketpair, Plain, Plain, Plain, output(8)),
    row!(SYS_bind, Plain, inputs(Int(2), 1)),
    row!(SYS_connect, Plain, inputs(Int(2), 1)),
    row!(SYS_listen),
    row!(SYS_accept, Plain, told(Write, 2), both(INT)),
    row!(SYS_accept4, Plain, told(Write, 2), both(INT)),
    row!(SYS_getsockname, Plain, told(Write, 2), both(INT)),
    row!(SYS_getpeername, Plain, told(Write, 2), both(INT)),
    row!(SYS_shutdown),
    row!(SYS_getsockopt, Plain, Plain, Plain, Form(Words(Both, Length::Told(4))), both(INT)),
    row!(SYS_setsockopt, Plain, Plain, Plain, OPTION),
    row!(SYS_sendto, Plain, inputs(Long(2), 1), Plain, Plain, inputs(Int(5), 1))
        .lasts(zero_copy(3)),
    row!(SYS_sendmsg, Plain, Form(Message(Read))).lasts(zero_copy(2)),
    row!(SYS_sendmmsg, Plain, Form(Messages(Read, Int(2)))).lasts(zero_copy(3)),
    row!(SYS_recvfrom, Plain, outputs(Long(2), 1), Plain, Plain, told(Write, 5), both(INT)),
    row!(SYS_recvmsg, Plain, Form(Message(Write))),
    row!(SYS_recvmmsg, Plain, Form(Messages(Write, Int(2))), Plain, Plain, both(TIME)),
];

//! Calls that start asynchronous work of the kernel.

use crate::count::Count::Long;
use crate::named_row::NamedRow;
use crate::options;
use crate::row::Argument::{Form, Plain};
use crate::row::Form::{Iocbs, Sigset};
use crate::row::{Lasting, Special, both, input, outputs};
use crate::sizes::{IO_EVENT, IO_URING_PARAMS, IOCB, TIME, WORD};

pub(super) const ROWS: &[NamedRow] = &[
    row!(SYS_io_setup, Plain, both(WORD)).is(Special::AddressSpace),
    row!(SYS_io_destroy).is(Special::AddressSpace),
    row!(SYS_io_submit, Plain, Plain, Form(Iocbs(Long(1)))).lasts(Lasting::Yes),
    row!(SYS_io_cancel, Plain, input(IOCB)),
    row!(SYS_io_getevents, Plain, Plain, Plain, outputs(Long(2), IO_EVENT), input(TIME)),
    row!(
        SYS_io_pgetevents,
        Plain,
        Plain,
        Plain,
        outputs(Long(2), IO_EVENT),
        input(TIME),
        Form(Sigset)
    )
    .is(Special::Signals),
    // Entries in the rings refer to memory without a call.
    row!(SYS_io_uring_setup, Plain, both(IO_URING_PARAMS))
        .lasts(Lasting::Yes)
        .is(Special::Withheld),
    row!(SYS_io_uring_enter, Plain, Plain, Plain, Plain, options::URING_WAIT)
        .lasts(Lasting::Yes)
        .is(Special::Signals),
    row!(SYS_io_uring_register, Plain, Plain, options::URING_REGISTER).lasts(Lasting::Yes),
];

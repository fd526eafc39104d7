//! Rows of calls that start asynchronous work of the kernel.

use crate::argument::Argument::{Plain, Pointee};
use crate::argument::Pointee::{Iocbs, Sigset};
use crate::argument::{both, input, outputs};
use crate::count::Count::Long;
use crate::named::{NamedSpec, behind, temporary};
use crate::options;
use crate::sizes::{IO_EVENT, IO_URING_PARAMS, IOCB, TIME, WORD};
use crate::spec::Special;
use crate::when::When::Always;

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_io_setup, Plain, both(WORD); is(Special::AddressSpace)),
    row!(SYS_io_destroy; is(Special::AddressSpace)),
    row!(SYS_io_submit, Plain, Plain, Pointee(Iocbs(Long(1))); keeps(Always)),
    row!(SYS_io_cancel, Plain, input(IOCB)),
    row!(SYS_io_getevents, Plain, Plain, Plain, outputs(Long(2), IO_EVENT), input(TIME)),
    row!(SYS_io_pgetevents, Plain, Plain, Plain, outputs(Long(2), IO_EVENT), input(TIME),
        Pointee(Sigset); is(Special::Signals), masks(behind(5))),
    // Entries in the rings of io_uring make the kernel access memory without a system call.
    row!(SYS_io_uring_setup, Plain, both(IO_URING_PARAMS); keeps(Always), is(Special::Forbidden)),
    row!(SYS_io_uring_enter, Plain, Plain, Plain, Plain, options::URING_WAIT;
        keeps(Always), is(Special::Signals), masks(temporary(4))),
    row!(SYS_io_uring_register, Plain, Plain, options::URING_REGISTER; keeps(Always)),
];

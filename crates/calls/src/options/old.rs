//! Options of calls that exist only on x86-64.

use super::{by_int, of};
use crate::argument::Argument::{self, Plain, Text, Unknown};
use crate::argument::{inputs, output, outputs};
use crate::count::Count::Long;
use crate::sizes::WORD;

/// The second argument of `arch_prctl`.
pub(crate) const ARCH_PRCTL: Argument = of(&by_int(
    0,
    &[
        (0x1003, output(WORD)),
        (0x1004, output(WORD)),
        (0x1021, output(8)),
        (0x1022, output(8)),
        (0x1024, output(8)),
        (0x4001, output(WORD)),
        (0x4003, output(WORD)),
        (0x5005, output(WORD)),
    ],
    Plain,
));

/// The second argument of `modify_ldt`: a table that the kernel writes, or an entry that it reads.
pub(crate) const MODIFY_LDT: Argument = of(&by_int(
    0,
    &[
        (0, outputs(Long(2), 1)),
        (1, inputs(Long(2), 1)),
        (2, outputs(Long(2), 1)),
        (0x11, inputs(Long(2), 1)),
    ],
    Plain,
));

/// The second argument of `sysfs`, and its third.
pub(crate) const SYSFS_1: Argument = of(&by_int(0, &[(1, Text)], Plain));
pub(crate) const SYSFS_2: Argument = of(&by_int(0, &[(2, Unknown)], Plain));

//! The last two arguments of `ptrace`, which depend on the request (the first argument).

use super::{by_int, of};
use crate::argument::Argument::{self, Plain, Pointee};
use crate::argument::Pointee::Regset;
use crate::argument::{Access, input, inputs, output, outputs};
use crate::count::Count::Long;
use crate::sizes::{SIGINFO, WORD};

/// The sizes in bytes of the general registers of x86-64, and of the registers of the
/// floating-point unit.
const REGISTERS: usize = 27 * 8;
const FLOATING: usize = 512;

/// The third argument of `ptrace`: an address in the other process, except for one request.
pub(crate) const PTRACE_ADDRESS: Argument = of(&by_int(0, &[(0x4209, input(16))], Plain));

/// The fourth argument of `ptrace`.
pub(crate) const PTRACE_DATA: Argument = of(&by_int(
    0,
    &[
        (1, output(WORD)),
        (2, output(WORD)),
        (3, output(WORD)),
        (12, output(REGISTERS)),
        (13, input(REGISTERS)),
        (14, output(FLOATING)),
        (15, input(FLOATING)),
        (25, output(16)),
        (26, input(16)),
        (0x4201, output(WORD)),
        (0x4202, output(SIGINFO)),
        (0x4203, input(SIGINFO)),
        (0x4204, Pointee(Regset(Access::Write))),
        (0x4205, Pointee(Regset(Access::Read))),
        (0x4209, Argument::Unknown),
        (0x420a, outputs(Long(2), 1)),
        (0x420b, inputs(Long(2), 1)),
        (0x420c, Argument::Unknown),
        (0x420d, outputs(Long(2), 1)),
        (0x420e, outputs(Long(2), 1)),
        (0x420f, outputs(Long(2), 1)),
        (0x4210, inputs(Long(2), 1)),
        (0x4211, outputs(Long(2), 1)),
        (0x4212, inputs(Long(2), 1)),
    ],
    Plain,
));

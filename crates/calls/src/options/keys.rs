//! The arguments of `keyctl`, which depend on the operation (the first argument).

use super::{by_int, of};
use crate::argument::Argument::{self, Plain, Pointee, Text, Unknown};
use crate::argument::Pointee::{Iovecs, Words};
use crate::argument::{Access, input, inputs, output, outputs};
use crate::count::Count::Long;
use crate::count::Length;

/// A `keyctl_pkey_params`, which holds the lengths of the later arguments.
const PARAMS: Argument = input(40);
const KDF_PARAMS: Argument = Pointee(Words(Access::Read, Length::Bytes(56)));

/// The second argument of `keyctl`.
pub(crate) const KEYCTL_1: Argument = of(&by_int(
    0,
    &[
        (1, Text),
        (23, input(12)),
        (25, PARAMS),
        (26, PARAMS),
        (27, PARAMS),
        (28, PARAMS),
        (31, outputs(Long(2), 1)),
    ],
    Plain,
));

/// The third argument of `keyctl`.
pub(crate) const KEYCTL_2: Argument = of(&by_int(
    0,
    &[
        (2, inputs(Long(3), 1)),
        (6, outputs(Long(3), 1)),
        (10, Text),
        (11, outputs(Long(3), 1)),
        (12, inputs(Long(3), 1)),
        (17, outputs(Long(3), 1)),
        (20, Pointee(Iovecs(Access::Read, Long(3)))),
        (23, outputs(Long(3), 1)),
        (25, Text),
        (26, Text),
        (27, Text),
        (28, Text),
        (29, Text),
    ],
    Plain,
));

/// The fourth argument of `keyctl`.
pub(crate) const KEYCTL_3: Argument = of(&by_int(
    0,
    &[
        (10, Text),
        (24, Text),
        (25, Unknown),
        (26, Unknown),
        (27, Unknown),
        (28, Unknown),
        (29, Text),
    ],
    Plain,
));

/// The fifth argument of `keyctl`.
pub(crate) const KEYCTL_4: Argument = of(&by_int(
    0,
    &[
        (23, KDF_PARAMS),
        (24, output(56)),
        (25, Unknown),
        (26, Unknown),
        (27, Unknown),
        (28, Unknown),
    ],
    Plain,
));

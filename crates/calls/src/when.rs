//! Conditions on the arguments of a system call.

/// A condition on the arguments of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The condition is false for all arguments.
    Never,
    /// The condition is true for all arguments.
    Always,
    /// The condition is true if the argument is 0 or a null pointer.
    Null(u8),
    /// The condition is true if the argument, which has type `int`, is negative.
    Negative(u8),
    /// The condition is true if at least one of these bits is set in the argument.
    Bits {
        /// The index of the argument.
        argument: u8,
        /// The bits of which at least one must be set.
        bits: usize,
    },
    /// The condition is true if none of these bits is set in the argument.
    NoBits {
        /// The index of the argument.
        argument: u8,
        /// The bits that must all be clear.
        bits: usize,
    },
    /// The condition depends on the value of an argument of type `int`.
    By {
        /// The index of the argument.
        argument: u8,
        /// The bits of the argument that are compared with the cases.
        mask: u32,
        /// Values of these bits, each with the resulting condition. For any other value, the
        /// condition is false.
        cases: &'static [(u32, When)],
    },
}

impl When {
    /// Returns whether the condition is true for these arguments.
    pub fn holds(self, arguments: &[usize; 6]) -> bool {
        let value = |nth: u8| arguments.get(usize::from(nth)).copied().unwrap_or(0);
        match self {
            When::Never => false,
            When::Always => true,
            When::Null(nth) => value(nth) == 0,
            When::Negative(nth) => (value(nth) as i32) < 0,
            When::Bits { argument, bits } => value(argument) & bits != 0,
            When::NoBits { argument, bits } => value(argument) & bits == 0,
            When::By { argument, mask, cases } => {
                let value = value(argument) as u32 & mask;
                cases.iter().any(|(of, when)| *of == value && when.holds(arguments))
            }
        }
    }
}

/// Creates a condition that depends on the masked value of argument `$argument`.
macro_rules! by_value {
    ($argument:expr, $mask:expr; $($($value:tt)|+ => $when:expr),*) => {
        crate::when::When::By {
            argument: $argument,
            mask: $mask as u32,
            cases: &[$($(($value as u32, $when)),+),*],
        }
    };
}

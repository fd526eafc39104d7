//! The length of the memory that a call accesses.

/// An argument that holds a number of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The argument is a `long` or `size_t`: the kernel reads the whole register.
    Long(u8),
    /// The argument is an `int`: the kernel ignores the upper half of the register, and refuses
    /// negative values.
    Int(u8),
}

impl Count {
    /// Returns the index of the argument that holds the number.
    pub const fn argument(self) -> u8 {
        match self {
            Count::Long(nth) | Count::Int(nth) => nth,
        }
    }

    /// Returns the number of items, which is 0 for a negative `int`.
    pub(crate) fn of(self, arguments: &[usize; 6]) -> usize {
        let value = arguments.get(usize::from(self.argument())).copied().unwrap_or(0);
        match self {
            Count::Long(_) => value,
            Count::Int(_) => usize::try_from(value as i32).unwrap_or(0),
        }
    }
}

/// The number of bytes at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A constant number of bytes.
    Bytes(usize),
    /// `more` bytes, plus `bytes` bytes for each item; an argument holds the number of items.
    Items {
        /// The number of items.
        count: Count,
        /// The size of an item in bytes.
        bytes: usize,
        /// The number of additional bytes.
        more: usize,
    },
    /// Whole words that contain a bit mask; an argument holds the sum of the number of bits and
    /// `less`.
    Bits {
        /// The argument that holds the sum.
        count: Count,
        /// The number of bits that the argument counts although the mask does not contain them.
        less: usize,
    },
    /// One byte for each page of a range; an argument holds the length of the range.
    Pages(Count),
    /// The value of the 4 bytes to which another argument points.
    FromMemory(u8),
    /// A length that is stored in 4 bytes of the memory itself, like the size field of a structure.
    Own {
        /// The offset of these 4 bytes.
        at: usize,
        /// The number of bytes that the stored length does not include.
        more: usize,
        /// The minimum length in bytes, which is also used if the stored length is 0.
        least: usize,
        /// The maximum length in bytes that the kernel accepts.
        most: usize,
    },
}

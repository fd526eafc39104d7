//! The length of a memory range that a call accesses.

/// An argument that holds a number of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The argument is a `long` or `size_t`. The kernel reads the whole register.
    Long(u8),
    /// The argument is an `int`. The kernel ignores the upper half of the register, and refuses
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

/// The number of bytes in the memory range at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A constant number of bytes.
    Bytes(usize),
    /// An argument holds a number of items. The length is `bytes` bytes for each item, plus `more`
    /// bytes.
    Items {
        /// The number of items.
        count: Count,
        /// The size of an item in bytes.
        bytes: usize,
        /// The number of additional bytes.
        more: usize,
    },
    /// The size of a bit mask, rounded up to whole machine words. An argument holds the number of
    /// bits plus `less`.
    Bits {
        /// The argument that holds the number of bits plus `less`.
        count: Count,
        /// The number that the kernel subtracts from the argument to get the number of bits.
        less: usize,
    },
    /// The number of pages in another memory range. An argument holds the length in bytes of that
    /// other range.
    Pages(Count),
    /// The value of the 4 bytes to which the argument with this index points.
    FromMemory(u8),
    /// The length is stored in 4 bytes of the memory range, for example as the size field of a
    /// structure.
    Own {
        /// The offset of these 4 bytes in the memory range.
        at: usize,
        /// The number of bytes that are added to the stored length.
        more: usize,
        /// The minimum length in bytes. If the stored length is 0, the range has the minimum
        /// length.
        least: usize,
        /// The maximum length in bytes that the kernel accepts.
        most: usize,
    },
}

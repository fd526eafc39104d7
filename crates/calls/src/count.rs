//! How long memory is that a call names.

/// An argument that counts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A `long` or `size_t`: the whole register.
    Long(u8),
    /// An `int`: the kernel drops the register's upper half. Negative ones are refused by it.
    Int(u8),
}

impl Count {
    /// Returns which argument it is.
    pub const fn argument(self) -> u8 {
        match self {
            Count::Long(nth) | Count::Int(nth) => nth,
        }
    }

    /// Returns the count, 0 for a negative `int`.
    pub(crate) fn of(self, arguments: &[usize; 6]) -> usize {
        let value = arguments.get(usize::from(self.argument())).copied().unwrap_or(0);
        match self {
            Count::Long(_) => value,
            Count::Int(_) => usize::try_from(value as i32).unwrap_or(0),
        }
    }
}

/// How many bytes there are at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many.
    Bytes(usize),
    /// `more`, and `bytes` for each of the items that an argument counts.
    Items {
        /// How many items there are.
        count: Count,
        /// Bytes of an item.
        bytes: usize,
        /// Bytes besides.
        more: usize,
    },
    /// Whole words for as many bits as an argument counts, less `less`.
    Bits {
        /// How many bits there are.
        count: Count,
        /// Bits that are counted and not there.
        less: usize,
    },
    /// A byte for each page of the bytes that an argument counts.
    Pages(Count),
    /// As the 4 bytes at another argument's address say.
    Told(u8),
    /// What is there says its own length in 4 bytes.
    Own {
        /// Where those lie.
        at: usize,
        /// Bytes that are not counted there.
        more: usize,
        /// What they are taken for if they are 0, and what is there in any case.
        least: usize,
        /// What the kernel takes at most.
        most: usize,
    },
}

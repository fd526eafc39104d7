//! The table: a row for each system call.

use crate::row::Row;

/// A row: a constant with the number, then what the arguments are; those that are left out are
/// numbers.
macro_rules! row {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        crate::row::Row::new(
            crate::numbers::$number,
            stringify!($number),
            &[$($argument),*],
        )
    };
}

mod asynchronous;
mod files;
mod ipc;
mod memory;
mod metadata;
mod net;
#[cfg(target_arch = "x86_64")]
mod old;
mod process;
mod signals;
mod system;
mod time;

#[cfg(not(target_arch = "x86_64"))]
mod old {
    pub(super) const ROWS: &[crate::row::Row] = &[];
}

const GROUPS: [&[Row]; 11] = [
    asynchronous::ROWS,
    files::ROWS,
    ipc::ROWS,
    memory::ROWS,
    metadata::ROWS,
    net::ROWS,
    old::ROWS,
    process::ROWS,
    signals::ROWS,
    system::ROWS,
    time::ROWS,
];

/// Above the largest number.
const NUMBERS: usize = 512;

/// Rows by number. A number that had two rows, or is too large, would be an error of the compiler.
static INDEX: [Option<&Row>; NUMBERS] = {
    let mut index: [Option<&Row>; NUMBERS] = [None; NUMBERS];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut nth = 0;
        while nth < GROUPS[group].len() {
            let row = &GROUPS[group][nth];
            assert!(index[row.number].is_none(), "a number has two rows");
            index[row.number] = Some(row);
            nth += 1;
        }
        group += 1;
    }
    index
};

/// Returns the row of a system call, if its number is known.
pub fn row(number: usize) -> Option<&'static Row> {
    INDEX.get(number).copied().flatten()
}

/// Returns all rows, by number.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    INDEX.iter().copied().flatten()
}

//! The table: a row for each system call.

use crate::row::{NamedRow, Row};

/// A row: a constant with the number, then what the arguments are; those that are left out are
/// numbers.
macro_rules! row {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        crate::row::NamedRow::new(
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
    pub(super) const ROWS: &[crate::row::NamedRow] = &[];
}

const GROUPS: [&[NamedRow]; 11] = [
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

/// The number of rows.
const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

/// All rows; those that have addresses are the last ones.
static ROWS: [Row; COUNT] = {
    let mut rows = [GROUPS[0][0].row; COUNT];
    let (mut first, mut last, mut group) = (0, COUNT, 0);
    while group < GROUPS.len() {
        let mut nth = 0;
        while nth < GROUPS[group].len() {
            let row = GROUPS[group][nth].row;
            if row.has_addresses() {
                last -= 1;
                rows[last] = row;
            } else {
                rows[first] = row;
                first += 1;
            }
            nth += 1;
        }
        group += 1;
    }
    rows
};

/// For each number, the place of its row and 1, or 0. A number that had two rows, or is too large,
/// would be an error of the compiler.
static PLACES: [u16; NUMBERS] = {
    let (mut places, mut nth) = ([0; NUMBERS], 0);
    while nth < COUNT {
        let place = &mut places[ROWS[nth].number];
        assert!(*place == 0, "a number has two rows");
        nth += 1;
        *place = nth as u16;
    }
    places
};

/// Names by number.
static NAMES: [&str; NUMBERS] = {
    let (mut names, mut group) = ([""; NUMBERS], 0);
    while group < GROUPS.len() {
        let mut nth = 0;
        while nth < GROUPS[group].len() {
            let NamedRow { row, name } = GROUPS[group][nth];
            names[row.number] = name;
            nth += 1;
        }
        group += 1;
    }
    names
};

/// Returns the row of a system call, if its number is known.
pub fn row(number: usize) -> Option<&'static Row> {
    let place = usize::from(*PLACES.get(number)?);
    ROWS.get(place.checked_sub(1)?)
}

/// Returns all rows, by number.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    (0..NUMBERS).filter_map(row)
}

/// Returns the name of a system call.
pub(crate) fn name(number: usize) -> &'static str {
    NAMES[number]
}

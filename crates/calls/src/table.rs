//! The table of system calls: one row for each call.

use crate::named::NamedSpec;
use crate::spec::SyscallSpec;

/// Creates a row from the constant of the call's number and the kinds of the arguments. A semicolon
/// precedes the other columns, which [`NamedSpec`] defines. Missing arguments have the kind
/// [`Argument::Plain`](crate::Argument::Plain).
macro_rules! row {
    ($number:ident $(, $argument:expr)* $(,)? $(; $($column:ident $(($value:expr))?),*)?) => {
        crate::named::NamedSpec::new(
            crate::numbers::$number,
            stringify!($number),
            &[$($argument),*],
        )$($(.$column($($value)?))*)?
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
    pub(super) const ROWS: &[crate::named::NamedSpec] = &[];
}

const GROUPS: [&[NamedSpec]; 11] = [
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

/// A number above all numbers of system calls.
const NUMBERS: usize = 512;

/// The number of rows in the table.
const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

/// All rows, with the names of their calls. `uzram-host` never looks up a name, so it does not
/// contain this table.
static ALL: [NamedSpec; COUNT] = {
    let (mut all, mut count, mut group) = ([GROUPS[0][0]; COUNT], 0, 0);
    while group < GROUPS.len() {
        let mut nth = 0;
        while nth < GROUPS[group].len() {
            all[count] = GROUPS[group][nth];
            (count, nth) = (count + 1, nth + 1);
        }
        group += 1;
    }
    all
};

/// The rows without the names of their calls. Rows that contain addresses follow the other rows.
static ROWS: [SyscallSpec; COUNT] = {
    let (mut rows, mut nth) = ([ALL[0].spec; COUNT], 0);
    let (mut first, mut last) = (0, COUNT);
    while nth < COUNT {
        if ALL[nth].has_addresses() {
            last -= 1;
            rows[last] = ALL[nth].spec;
        } else {
            rows[first] = ALL[nth].spec;
            first += 1;
        }
        nth += 1;
    }
    rows
};

/// For each number of a call, the index of its row in `ROWS` plus 1, or 0 if the number has no row.
/// Compilation fails if a number has two rows or is too large.
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

/// Returns the row of the system call with this number, or `None` if the table has no such row.
pub fn spec(number: usize) -> Option<&'static SyscallSpec> {
    let place = usize::from(*PLACES.get(number)?);
    ROWS.get(place.checked_sub(1)?)
}

/// Returns all rows, ordered by number.
pub fn specs() -> impl Iterator<Item = &'static SyscallSpec> {
    (0..NUMBERS).filter_map(spec)
}

/// Returns the name of the system call with this number, or `None` if the table has no such row.
pub fn name(number: usize) -> Option<&'static str> {
    ALL.iter().find(|named| named.spec.number == number).map(|named| named.name)
}

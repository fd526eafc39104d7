//! Rows as the files of the table have them.

use crate::row::{Argument, Lasting, Row, Special};
use libc::c_long;

/// A row as the table's files have it.
#[derive(Clone, Copy)]
pub(crate) struct NamedRow {
    pub(crate) row: Row,
    pub(crate) name: &'static str,
}

impl NamedRow {
    /// Makes a row of a constant's value and name, `SYS_` before it.
    pub(crate) const fn new(number: c_long, name: &'static str, given: &[Argument]) -> Self {
        let mut arguments = [Argument::Plain; 6];
        let mut nth = 0;
        while nth < given.len() {
            arguments[nth] = given[nth];
            nth += 1;
        }
        let name = name.split_at("SYS_".len()).1;
        let (lasting, special) = (Lasting::No, Special::Nothing);
        let row = Row { number: number as usize, arguments, lasting, special };
        NamedRow { row, name }
    }

    /// Says that memory is touched later.
    pub(crate) const fn lasts(mut self, lasting: Lasting) -> Self {
        self.row.lasting = lasting;
        self
    }

    /// Says what else there is.
    pub(crate) const fn is(mut self, special: Special) -> Self {
        self.row.special = special;
        self
    }

    /// Returns whether the row has addresses of other constants. A host that is linked statically
    /// relocates them, so the pages of such rows are private memory of each process.
    pub(crate) const fn has_addresses(&self) -> bool {
        let mut nth = 0;
        let mut is_choice = false;
        while nth < self.row.arguments.len() {
            is_choice |= matches!(self.row.arguments[nth], Argument::By(_));
            nth += 1;
        }
        is_choice
            || matches!(self.row.lasting, Lasting::Values { .. })
            || matches!(self.row.special, Special::By { .. })
    }
}

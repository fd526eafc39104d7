//! Rows of the table with their names.

use crate::row::{Argument, Lasting, Row, Special};
use libc::c_long;

/// A row, and the name of its call.
#[derive(Clone, Copy)]
pub(crate) struct NamedRow {
    pub(crate) row: Row,
    pub(crate) name: &'static str,
}

impl NamedRow {
    /// Creates a row from the value and the name of a constant. The name begins with `SYS_`.
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

    /// Sets whether the kernel may touch the memory after the call's return.
    pub(crate) const fn lasts(mut self, lasting: Lasting) -> Self {
        self.row.lasting = lasting;
        self
    }

    /// Sets the other effects of the call.
    pub(crate) const fn is(mut self, special: Special) -> Self {
        self.row.special = special;
        self
    }

    /// Returns whether the row contains addresses of other constants. A statically linked host
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

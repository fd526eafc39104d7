//! Rows of the table of system calls, each with the name of its call.

use crate::argument::Argument;
use crate::spec::{Need, SignalMask, SimpleClass, Special, SyscallSpec, Wait};
use crate::when::When;
use libc::c_long;

#[derive(Clone, Copy)]
pub(crate) struct NamedSpec {
    pub(crate) spec: SyscallSpec,
    pub(crate) name: &'static str,
}

/// Defines, for each column of a row, a function that sets this column.
macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident($($value:ident: $type:ty)?): $column:ident = $set:expr;)*) => {
        $($(#[$doc])*
        pub(crate) const fn $name(mut self $(, $value: $type)?) -> Self {
            self.spec.$column = $set;
            self
        })*
    };
}

impl NamedSpec {
    /// Creates a row from the value and the name of a constant such as `SYS_read`.
    pub(crate) const fn new(number: c_long, name: &'static str, given: &[Argument]) -> Self {
        let mut arguments = [Argument::Plain; 6];
        let mut nth = 0;
        while nth < given.len() {
            arguments[nth] = given[nth];
            nth += 1;
        }
        let spec = SyscallSpec {
            number: number as usize,
            arguments,
            kept_after_return: When::Never,
            special: Special::Nothing,
            wait: None,
            is_brief: false,
            signal_mask: None,
            changes_mappings: When::Never,
            is_of_range: false,
            ends_own_thread: When::Never,
            simple: SimpleClass::No,
            need: Need::No,
        };
        NamedSpec { spec, name: name.split_at("SYS_".len()).1 }
    }

    columns! {
        keeps(when: When): kept_after_return = when;
        is(special: Special): special = special;
        waits(wait: Wait): wait = Some(wait);
        brief(): is_brief = true;
        masks(mask: SignalMask): signal_mask = Some(mask);
        changes(when: When): changes_mappings = when;
        of_range(): is_of_range = true;
        ends(when: When): ends_own_thread = when;
        simple(class: SimpleClass): simple = class;
        needed(): need = Need::Needed;
        optional(): need = Need::Optional;
    }

    /// Returns whether the row contains addresses of other constants. If `uzram-host` is linked
    /// statically, it relocates these addresses when it starts. Relocation makes the pages of such
    /// rows private memory of each process.
    pub(crate) const fn has_addresses(&self) -> bool {
        let mut nth = 0;
        let mut is_choice = false;
        while nth < self.spec.arguments.len() {
            is_choice |= matches!(self.spec.arguments[nth], Argument::By(_));
            nth += 1;
        }
        let waits_by = match self.spec.wait {
            Some(wait) => has_cases(wait.is_interrupted) || has_cases(wait.repeats),
            None => false,
        };
        is_choice
            || waits_by
            || has_cases(self.spec.kept_after_return)
            || has_cases(self.spec.ends_own_thread)
            || matches!(self.spec.special, Special::By { .. })
    }
}

/// Returns true if a condition contains the address of its cases.
const fn has_cases(when: When) -> bool {
    matches!(when, When::By { .. })
}

/// Describes a call that a signal can end. If the call is issued again, its total wait can become
/// longer.
pub(crate) const ENDED: Wait =
    Wait { is_interrupted: When::Always, repeats: When::Never, restarts: When::Never };
/// Like [`ENDED`], but after a handler with SA_RESTART the kernel restarts the call.
pub(crate) const RESTARTED: Wait = Wait { restarts: When::Always, ..ENDED };
/// Like [`RESTARTED`], but the total wait does not become longer if the call is issued again.
pub(crate) const REPEATED: Wait = Wait { repeats: When::Always, ..RESTARTED };

/// Describes a signal mask that applies while the call waits. The argument after the mask is the
/// mask's size.
pub(crate) const fn temporary(argument: u8) -> SignalMask {
    SignalMask { argument, bytes: argument + 1, is_behind: false, is_temporary: true }
}

/// Describes a temporary mask like [`temporary`], but the argument points to a structure that holds
/// the mask's address and size.
pub(crate) const fn behind(argument: u8) -> SignalMask {
    SignalMask { argument, bytes: argument, is_behind: true, is_temporary: true }
}

/// Describes a set of signals that the call accepts. `argument` and `bytes` are the indexes of the
/// set's address and size.
pub(crate) const fn accepted(argument: u8, bytes: u8) -> SignalMask {
    SignalMask { argument, bytes, is_behind: false, is_temporary: false }
}

//! The helper of a call that executes a program (pl-27). The call's note holds it.
//!
//! # Safety
//! The word of a note is 0, or a helper's word, which is cleared when the helper is taken out.
#![allow(unsafe_code)]

use crate::pins::{HELPER, Note};
use inject::Helper;

/// Stores the helper of a call in its note.
pub(crate) fn keep(note: &mut Note, helper: Option<Helper<'_>>) {
    note[HELPER] = helper.map_or(0, Helper::into_word);
}

/// Drops the helper of a call that has executed no program. Returns whether the call had one.
pub(crate) fn dismiss(note: &mut Note) -> bool {
    let word = std::mem::take(&mut note[HELPER]);
    // SAFETY: see "Safety" above.
    (word != 0).then(|| unsafe { Helper::from_word(word) }).is_some()
}

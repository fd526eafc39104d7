//! The helper of a call that executes a program (pl-27). The call's note contains a word that
//! identifies the helper.
//!
//! # Safety
//! The word of a note is 0, or identifies a helper, and is cleared when the helper is taken from
//! the note.
#![allow(unsafe_code)]

use crate::pins::{HELPER, Note};
use inject::Helper;

/// Stores the helper of a call in the call's note.
pub(crate) fn keep(note: &mut Note, helper: Option<Helper<'_>>) {
    note[HELPER] = helper.map_or(0, Helper::into_word);
}

/// Drops the helper of a call that has executed no program. Returns whether the call had a helper.
pub(crate) fn dismiss(note: &mut Note) -> bool {
    let word = std::mem::take(&mut note[HELPER]);
    // SAFETY: the word identifies a helper, and `take` has cleared the word in the note.
    (word != 0).then(|| unsafe { Helper::from_word(word) }).is_some()
}

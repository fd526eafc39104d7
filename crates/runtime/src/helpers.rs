//! The helper of a call that executes a program (pl-27), noted with the call.
//!
//! # Safety
//! The word of a note is 0, or a helper's that is taken out with it.
#![allow(unsafe_code)]

use crate::pins::{HELPER, Note};
use inject::Helper;

/// Notes the helper of a call.
pub(crate) fn keep(note: &mut Note, helper: Option<Helper<'_>>) {
    note[HELPER] = helper.map_or(0, Helper::into_word);
}

/// Dismisses the helper of a call that has executed no program. Returns whether the call had one.
pub(crate) fn dismiss(note: &mut Note) -> bool {
    let word = std::mem::take(&mut note[HELPER]);
    // SAFETY: see the head of this file.
    (word != 0).then(|| unsafe { Helper::from_word(word) }).is_some()
}

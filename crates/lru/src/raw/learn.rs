//! Trains a dictionary, and then packs the stored values again with this dictionary. The lock is
//! released after every few values.

use super::coder::{Coder, Form, Method};
use super::core::Core;
use super::packed::Packed;
use super::samples::{Due, Samples, small_len};
use super::slots::Use;
use super::terms::Departed;
use super::values::Values;
use crate::policy::{COPIED_AT_ONCE, PACKED_AT_ONCE};
use page::fork::Mutex;
use std::sync::Arc;
use zcomp::Dictionary;

/// Performs the step `due` towards a dictionary.
pub fn learn<K>(core: &Mutex<Core<K>>, method: &Method, due: Due, out: &mut Departed<K>) {
    if let Some(dictionary) = due.dictionary {
        return pack_with(core, method, dictionary, out);
    }
    // If the training fails, the cache continues without a dictionary.
    if let Some(trained) = train(core, method) {
        core.lock().set_due(trained, out);
    }
}

/// Returns copies of the values that have one piece, from slot `from` on. If more slots remain, the
/// second result is the slot at which to continue. A value is left out if memory for its copy can't
/// be allocated.
fn small_values<K>(values: &Values<K>, from: u32) -> (Vec<Packed>, Option<u32>) {
    let to = from.saturating_add(COPIED_AT_ONCE).min(values.slots.count());
    let is_small = |&index: &u32| {
        let slot = &values.slots[index];
        slot.used_as == Use::First && small_len(slot.len as usize, values.block) > 0
    };
    let copies = (from..to).filter(is_small).flat_map(|index| values.packed(index)).collect();
    (copies, (to < values.slots.count()).then_some(to))
}

fn train<K>(core: &Mutex<Core<K>>, method: &Method) -> Option<Due> {
    let first = core.lock().values.coders.current().clone();
    let (mut samples, mut next) = (Samples::default(), Some(0));
    while let Some(from) = next {
        let values;
        (values, next) = small_values(&core.lock().values, from);
        values.into_iter().try_for_each(|value| samples.add(value)).ok()?;
    }
    samples.learn(method, &first).ok()?
}

fn pack_with<K>(
    core: &Mutex<Core<K>>,
    method: &Method,
    dictionary: Dictionary,
    out: &mut Departed<K>,
) {
    let Ok(coder) = Coder::new(method, Some(dictionary), Form::Trained) else { return };
    if !core.lock().adopt(Arc::new(coder), out) {
        return;
    }
    // A second pass retries the pieces that did not fit, because other pieces have become smaller.
    for _ in 0..2 {
        let mut next = Some(0);
        while let Some(from) = next {
            // If packing fails, the remaining values are not packed again, and can still be read.
            next = core.lock().repack(from, PACKED_AT_ONCE).unwrap_or(None);
        }
    }
    core.lock().repacks = false;
    while core.lock().values.pieces.shrink() {}
}

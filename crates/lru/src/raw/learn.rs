//! Trains a dictionary, and packs the stored values again with this dictionary, a few values at a
//! time.

use super::coder::{Coder, Form};
use super::samples::{Due, Samples};
use super::{Departed, RawLruCache};
use std::sync::Arc;
use zcomp::Dictionary;

/// The number of bytes that are packed again before the lock is released.
const AT_ONCE: usize = 16 << 10;

impl<K: Send + 'static> RawLruCache<K> {
    /// Takes the step that [`put`](Self::put) returned as due.
    pub fn learn(&self, due: Due, out: &mut Departed<K>) {
        if let Some(dictionary) = due.dictionary {
            return self.pack_with(dictionary, out);
        }
        // If the training fails, the cache continues without a dictionary.
        let trained = self.train();
        self.core.lock().due = trained;
    }

    fn train(&self) -> Option<Due> {
        let first = self.core.lock().coder()?;
        let (mut samples, mut next) = (Samples::default(), Some(0));
        while let Some(from) = next {
            let values;
            (values, next) = self.core.lock().small_values(from);
            values.into_iter().try_for_each(|value| samples.add(value)).ok()?;
        }
        samples.learn(&self.method, &first).ok()?
    }

    fn pack_with(&self, dictionary: Dictionary, out: &mut Departed<K>) {
        let Ok(coder) = Coder::new(&self.method, Some(dictionary), Form::Trained) else { return };
        if !self.core.lock().adopt(Arc::new(coder), out) {
            return;
        }
        // A piece that does not fit in the first pass may fit in the second one, after other pieces
        // became smaller.
        for _ in 0..2 {
            let mut next = Some(0);
            while let Some(from) = next {
                // Values that were not packed again can still be read.
                next = self.core.lock().repack(from, AT_ONCE).unwrap_or(None);
            }
        }
        self.core.lock().repacks = false;
        while self.core.lock().shrink_pool() {}
    }
}

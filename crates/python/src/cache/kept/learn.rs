//! A dictionary is trained, and what is kept is packed anew with it, a little at a time.

use super::{Departed, Kept, Samples};
use std::sync::Arc;

/// Bytes that are packed anew before the lock is released.
const REPACKED_AT_ONCE: usize = 16 << 10;

impl<K: Send + 'static> Kept<K> {
    /// Trains a dictionary with the samples that [`put`](Self::put) handed out, and packs all
    /// values anew if it pays.
    pub fn learn(&self, samples: Samples, out: &mut Departed<K>) {
        let Some(plain) = self.core.lock().coder() else { return };
        // A cache goes on without a dictionary where there is nothing to learn.
        let coder = samples.learn(&self.method, &plain).ok().flatten();
        drop(samples);
        let adopted = |coder| self.core.lock().adopt(Arc::new(coder), out);
        if !coder.is_some_and(adopted) {
            return;
        }
        let mut next = Some(0);
        while let Some(from) = next {
            // What was not packed anew can be read all the same.
            next = self.core.lock().repack(from, REPACKED_AT_ONCE).unwrap_or(None);
        }
        self.core.lock().repacks = false;
    }
}

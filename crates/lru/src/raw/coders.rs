//! The coders that a cache uses.

use super::coder::{ByForm, Coder};
use std::sync::{Arc, Weak};

/// The first coder, and the coder with the trained dictionary.
#[derive(Debug)]
pub struct Coders {
    pub by_form: ByForm,
    /// The first coder, if it still exists. After it was replaced, threads can still unpack values
    /// that it packed.
    first: Weak<Coder>,
}

impl Coders {
    /// Returns the coders of a cache that has no trained coder yet.
    pub fn new(first: Arc<Coder>) -> Self {
        Coders { first: Arc::downgrade(&first), by_form: [Some(first), None] }
    }

    /// Returns the coder that packs new values.
    pub fn current(&self) -> &Arc<Coder> {
        let [first, trained] = &self.by_form;
        let Some(current) = trained.as_ref().or(first.as_ref()) else {
            unreachable!("a cache without a coder")
        };
        current
    }

    /// Returns all coders whose streams may be in use.
    pub fn live(&self) -> Vec<Arc<Coder>> {
        self.first.upgrade().into_iter().chain(self.by_form[1].clone()).collect()
    }

    /// Returns the number of bytes of memory that the coders use.
    pub fn bytes(&self) -> usize {
        self.by_form.iter().flatten().map(|coder| coder.bytes()).sum()
    }
}

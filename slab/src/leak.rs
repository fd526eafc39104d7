//! Objects that users still had when their cache was destroyed.

use crate::policy::LEAKS_LISTED_MAX;
use std::fmt;
use std::ptr::NonNull;

/// The objects that were still allocated when the cache was destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The cache's name.
    pub name: String,
    /// The objects, whose memory remains readable while the arena exists.
    pub objects: Vec<NonNull<u8>>,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<_> = self
            .objects
            .iter()
            .take(LEAKS_LISTED_MAX)
            .map(|object| format!("{object:p}"))
            .collect();
        let more = if self.objects.len() > LEAKS_LISTED_MAX { ", ..." } else { "" };
        let (name, count) = (&self.name, self.objects.len());
        write!(f, "{count} objects of the cache {name} were not freed: {}{more}", listed.join(", "))
    }
}

impl std::error::Error for Leak {}

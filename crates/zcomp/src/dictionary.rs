//! What blocks are expected to be like: bytes that streams may refer to as if they came before each block.

use std::fmt;
use std::sync::Arc;

use crate::Error;

/// A dictionary; clones share its bytes.
///
/// zstd takes one that [`train`](crate::train) or `zstd --train` made with its tables, and anything else
/// as content alone. lz4 and lz4hc take the last 64 KiB of any as content.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary(Arc<[u8]>);

impl Dictionary {
    /// A dictionary of these bytes.
    ///
    /// # Errors
    /// [`Error::EmptyDictionary`]: there are none.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(Error::EmptyDictionary);
        }
        Ok(Dictionary(bytes))
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} bytes)", self.0.len())
    }
}

//! What blocks are expected to be like: bytes that streams may refer to as if they came before each
//! block.

use std::fmt;
use std::sync::Arc;

use crate::Error;
use crate::error::DICTIONARY_BYTES_MAX;

/// A dictionary; clones share its bytes.
///
/// zstd takes one that [`train`](crate::train) or `zstd --train` made with its tables, and anything
/// else as content alone. lz4 and lz4hc take the last 64 KiB of any as content.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary(Arc<[u8]>);

impl Dictionary {
    /// The largest: 16 MiB, many times what blocks of 64 KiB make use of.
    pub const BYTES_MAX: usize = DICTIONARY_BYTES_MAX;

    /// Returns a dictionary of these bytes.
    ///
    /// # Errors
    /// [`Error::EmptyDictionary`]: there are none. [`Error::LargeDictionary`]: there are more than
    /// [`BYTES_MAX`](Self::BYTES_MAX).
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        match bytes.len() {
            0 => return Err(Error::EmptyDictionary),
            len if len > Self::BYTES_MAX => return Err(Error::LargeDictionary),
            _ => {}
        }
        Ok(Dictionary(bytes))
    }

    /// Returns the dictionary's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} bytes)", self.0.len())
    }
}

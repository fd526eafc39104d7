//! Dictionaries. A dictionary consists of bytes that compressed blocks can refer to, as if the
//! bytes preceded each block.

use std::fmt;
use std::sync::Arc;

use crate::Error;
use crate::policy::DICTIONARY_BYTES_MAX;

/// A dictionary. Clones share its bytes.
///
/// If [`train`](crate::train) or `zstd --train` created the dictionary, zstd uses its tables. zstd
/// uses all bytes of any other dictionary as content. lz4 and lz4hc use the last 64 KiB of any
/// dictionary as content.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary(Arc<[u8]>);

impl Dictionary {
    /// The maximum size in bytes: 16 MiB. For blocks of 64 KiB, a much smaller dictionary suffices.
    pub const BYTES_MAX: usize = DICTIONARY_BYTES_MAX;

    /// Returns a dictionary that consists of `bytes`.
    ///
    /// # Errors
    /// [`Error::EmptyDictionary`] if `bytes` is empty, [`Error::LargeDictionary`] if it is longer
    /// than [`BYTES_MAX`](Self::BYTES_MAX).
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

//! Blocks of several slots: their objects, and the cache of decompressed blocks.

mod cache;
mod members;
mod object;

pub(crate) use cache::{BlockCache, BlockStream, BlockVersions, CachedBlock};
pub(crate) use members::Members;
pub(crate) use object::{BlockKind, BlockObject, DEVICE_PRIORITY, Packer};

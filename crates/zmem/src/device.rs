//! The device on which evicted blocks are stored.

use crate::options::BlockSizes;
use crate::signals::in_handler;
use crate::{Error, Options};
use std::sync::Arc;
use zram::{Compaction, Config, Device, Supply};

/// Refuses heap memory for the device to a thread that answers a fault (zm-H3), because the fault
/// may have interrupted the allocator.
#[derive(Debug)]
struct HandlerSupply;

impl Supply for HandlerSupply {
    fn grant(&self, request: page::Request) -> bool {
        !matches!(request, page::Request::Allocate { .. }) || !in_handler()
    }
}

/// Creates a device of `bytes` bytes. At most `contexts` threads with contexts, and the pager
/// thread, use it at the same time. If `is_heap_own`, no fault interrupts the allocator.
pub(crate) fn create(
    options: &Options,
    bytes: usize,
    sizes: BlockSizes,
    contexts: usize,
    is_heap_own: bool,
) -> Result<Device, Error> {
    let needed = sizes.device_block.max(page::page_size()) as u64;
    if let Some(limit) = options.store_limit.filter(|&limit| limit < needed) {
        return Err(Error::StoreLimit { limit, needed });
    }
    let config = Config {
        block: sizes.device_block,
        algorithm: options.codec,
        params: options.params.clone(),
        mem_limit: options.store_limit,
        checksums: options.checksums,
        // One stream for each context and one for the pager, so no thread waits for a stream.
        streams: Some(contexts + 1),
        // The device starts no threads, because a child would lack them.
        compaction: Compaction::Manual,
        // A fork locks this device after other devices, whose requests may access bytes of a
        // region.
        fork_turn: page::fork::Turn::Last,
        supply: (!is_heap_own).then(|| Arc::new(HandlerSupply) as Arc<dyn Supply>),
        ..Config::new(bytes as u64).map_err(|error| refused(error, bytes, sizes))?
    };
    Device::new(config).map_err(|error| refused(error, bytes, sizes))
}

/// Converts an error of the device: an error about the device's size becomes one about the region's
/// size.
fn refused(error: zram::Error, bytes: usize, sizes: BlockSizes) -> Error {
    match error {
        zram::Error::Disksize { .. } => Error::Size { bytes, block: sizes.block },
        error => Error::Device(error),
    }
}

/// Returns whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|words| words == &[0; 64]) && rest.iter().all(|&byte| byte == 0)
}

//! The device that blocks lie on while they are evicted.

use crate::in_handler::in_handler;
use crate::options::Blocks;
use crate::{Error, Options};
use std::sync::Arc;
use zram::{Compaction, Config, Device, Supply};

/// Refuses the heap to who answers a fault (zm-H3): the interrupted thread may be in its allocator.
#[derive(Debug)]
struct HandlerSupply;

impl Supply for HandlerSupply {
    fn grant(&self, request: page::Request) -> bool {
        !matches!(request, page::Request::Allocate { .. }) || !in_handler()
    }
}

/// A device for `bytes` bytes, that so many threads use at once.
pub(crate) fn device(
    options: &Options,
    bytes: usize,
    blocks: Blocks,
    seats: usize,
) -> Result<Device, Error> {
    let config = Config {
        block: blocks.stored,
        algorithm: options.codec,
        params: options.params.clone(),
        mem_limit: options.store_limit,
        checksums: options.checksums,
        // Whoever uses it has a seat, so there is always a stream left.
        streams: Some(seats + 1),
        // Threads of the device's own would be missing in a child.
        compaction: Compaction::Manual,
        supply: Some(Arc::new(HandlerSupply)),
        ..Config::new(bytes as u64)?
    };
    Ok(Device::new(config)?)
}

/// Whether bytes are all zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|words| words == &[0; 64]) && rest.iter().all(|&byte| byte == 0)
}

//! Streams: the codec's contexts and buffers, one per processor, made with the device.

use crate::{BLOCK, Config, Error};
use page::fork::Mutex;
use rustix_futex_sync::MutexGuard;
use std::fmt;
use zcomp::Stream;

/// What a thread needs to compress and decompress. Nothing in it allocates later.
pub(crate) struct Workspace {
    /// Which of the streams this is.
    pub(crate) nth: usize,
    pub(crate) codec: Box<dyn Stream>,
    /// Compressed bytes on their way to the pool; larger than any codec's output for a block.
    pub(crate) scratch: Box<[u8; 2 * BLOCK]>,
    /// Whether the last block that was overwritten had about the length of the new one, which then goes to its place.
    pub(crate) is_alike: bool,
    /// A block that is read to be changed in part.
    pub(crate) block: Box<[u8; BLOCK]>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("nth", &self.nth).finish_non_exhaustive()
    }
}

/// Each on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Workspace>);

/// All workspaces of a device.
#[derive(Debug)]
pub(crate) struct Streams {
    workspaces: Box<[Padded]>,
    /// What they share is in it: the digest of a dictionary.
    bytes: usize,
}

impl Streams {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get());
        let count = config.streams.unwrap_or_else(processors).max(1);
        let prepared = config.algorithm.prepare(&config.params, BLOCK)?;
        let workspaces = (0..count)
            .map(|nth| {
                Ok(Padded(Mutex::new(Workspace {
                    nth,
                    is_alike: false,
                    codec: prepared.stream_owned()?,
                    scratch: Box::new([0; 2 * BLOCK]),
                    block: Box::new([0; BLOCK]),
                })))
            })
            .collect::<Result<Box<[_]>, Error>>()?;
        let own = size_of_val(&*workspaces) + count * (prepared.stream_bytes() + 3 * BLOCK);
        let bytes = own + prepared.bytes();
        Ok(Streams { workspaces, bytes })
    }

    /// Waits for every stream, and keeps it, over a fork.
    pub(crate) fn hold(&self) {
        self.workspaces.iter().for_each(|workspace| workspace.0.hold());
    }

    pub(crate) fn let_go(&self) {
        self.workspaces.iter().for_each(|workspace| workspace.0.let_go());
    }

    pub(crate) fn len(&self) -> usize {
        self.workspaces.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// This processor's stream; where it is busy another that is not; else it is waited for.
    pub(crate) fn get(&self) -> MutexGuard<'_, Workspace> {
        let count = self.workspaces.len();
        let first = rustix::thread::sched_getcpu() % count;
        (0..count)
            .find_map(|step| self.workspaces[(first + step) % count].0.try_lock())
            .unwrap_or_else(|| self.workspaces[first].0.lock())
    }
}

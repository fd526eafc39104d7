//! Streams: the codec's contexts and buffers, one per processor, made with the device.

use crate::algorithms::{Codecs, PreparedSet};
use crate::block::{BlockCache, BlockStream, Packer};
use crate::layout::Layout;
use crate::slot::{self, Slot};
use crate::{Config, Error, SLOT_BYTES};
use page::fork::{Mutex, Step};
use rustix_futex_sync::MutexGuard;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a thread needs to compress and decompress. Nothing in it allocates later.
pub(crate) struct Workspace {
    /// Which of the streams this is.
    pub(crate) index: usize,
    /// Whether anyone has had it.
    is_used: bool,
    pub(crate) codecs: Codecs,
    /// Compressed bytes on their way to the pool; larger than any codec's output for a block.
    pub(crate) scratch: Box<[u8; 2 * SLOT_BYTES]>,
    /// Whether the last block that was overwritten had about the length of the new one, which then
    /// goes to its place.
    pub(crate) expects_same_place: bool,
    /// A block that is read to be changed in part.
    pub(crate) block: Box<[u8; SLOT_BYTES]>,
    /// For blocks of several slots.
    blocks: Option<BlockStream>,
}

impl Workspace {
    /// Writes the bytes of slot `nth` from `at` on into `buf`.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        slot: Slot<'_>,
        at: usize,
        buf: &mut [u8],
        nth: u32,
    ) -> Result<(), Error> {
        let decoded = slot::decode(slot, at, buf, &mut self.codecs, &mut self.block);
        decoded.map_err(|source| Error::Corrupt { slot: nth.into(), source })
    }

    /// Of a device that has blocks of several slots.
    pub(crate) fn blocks(&mut self) -> &mut BlockStream {
        match &mut self.blocks {
            Some(blocks) => blocks,
            None => unreachable!("a device with blocks of one slot has no block stream"),
        }
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("nth", &self.index).finish_non_exhaustive()
    }
}

/// Each on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Workspace>);

/// All workspaces of a device.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Those of requests, and the last one, which is for jobs.
    workspaces: Box<[Padded]>,
    /// How many are requests'.
    requests: usize,
    /// What they share is in it: the digests of a dictionary.
    bytes: usize,
    /// Bytes of one stream that are written only once it is used.
    bytes_by_use: usize,
    /// How many have been used.
    used: AtomicUsize,
}

impl Streams {
    pub(crate) fn new(config: &Config, layout: Layout) -> Result<Self, Error> {
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get());
        let count = config.streams.unwrap_or_else(processors).max(1);
        // A job works beside as many requests as ever.
        let count = count + usize::from(config.needs_job_stream());
        let prepare = |bytes| PreparedSet::of(&config.algorithms(), bytes);
        let (prepared, block_bytes) = (prepare(SLOT_BYTES)?, layout.block_bytes());
        let blocks = layout.has_blocks().then(|| prepare(block_bytes)).transpose()?;
        let huge_size = config.huge_size(layout, layout.order())?;
        let stream = |prepared: &PreparedSet| -> Result<_, Error> {
            let packer = Packer::new(prepared.codecs()?, block_bytes, huge_size);
            Ok(BlockStream { packer, cache: BlockCache::new(block_bytes) })
        };
        let workspaces = (0..count)
            .map(|nth| {
                Ok(Padded(Mutex::new(Workspace {
                    index: nth,
                    is_used: false,
                    expects_same_place: false,
                    codecs: prepared.codecs()?,
                    scratch: Box::new([0; 2 * SLOT_BYTES]),
                    block: Box::new([0; SLOT_BYTES]),
                    blocks: blocks.as_ref().map(stream).transpose()?,
                })))
            })
            .collect::<Result<Box<[_]>, Error>>()?;
        let of_blocks = |workspace: &Padded| {
            workspace.0.lock().blocks.as_ref().map_or(0, BlockStream::buffer_bytes)
        };
        let buffers = workspaces.iter().map(|workspace| 3 * SLOT_BYTES + of_blocks(workspace));
        let buffers: usize = buffers.sum();
        let contexts = |count| -> usize {
            blocks.iter().chain([&prepared]).map(|prepared| prepared.bytes(count)).sum()
        };
        let bytes = size_of_val(&*workspaces) + buffers + contexts(count);
        let bytes_by_use = contexts(1) - contexts(0) + workspaces.first().map_or(0, of_blocks);
        let requests = count - usize::from(config.needs_job_stream());
        Ok(Streams { workspaces, requests, bytes, bytes_by_use, used: AtomicUsize::new(0) })
    }

    /// Waits for every stream, and keeps it, over a fork.
    pub(crate) fn at_fork(&self, step: Step) {
        self.workspaces.iter().for_each(|workspace| workspace.0.at_fork(step));
    }

    pub(crate) fn len(&self) -> usize {
        self.workspaces.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of streams that nobody has used yet, which the system has not given: they
    /// are zeros.
    pub(crate) fn unused_bytes(&self) -> usize {
        (self.len() - self.used.load(Relaxed)) * self.bytes_by_use
    }

    /// Of the streams that have been used this processor's; where it is busy another that is not;
    /// else one that takes memory from now on, and where there is none it is waited for.
    pub(crate) fn get(&self) -> MutexGuard<'_, Workspace> {
        let used = self.used.load(Relaxed).clamp(1, self.requests);
        let first = rustix::thread::sched_getcpu() % used;
        let own = (0..used).map(|step| (first + step) % used);
        let free = own.chain(used..self.requests).find_map(|nth| self.workspaces[nth].0.try_lock());
        self.begun(free.unwrap_or_else(|| self.workspaces[first].0.lock()))
    }

    /// Returns the stream that is for jobs, or a request's where there is none.
    pub(crate) fn for_job(&self) -> MutexGuard<'_, Workspace> {
        match self.workspaces.get(self.requests) {
            Some(workspace) => self.begun(workspace.0.lock()),
            None => self.get(),
        }
    }

    /// Takes account of its first use.
    fn begun<'s>(&self, mut stream: MutexGuard<'s, Workspace>) -> MutexGuard<'s, Workspace> {
        if !stream.is_used {
            stream.is_used = true;
            self.used.fetch_add(1, Relaxed);
        }
        stream
    }
}

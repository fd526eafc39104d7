//! Streams: sets of codec contexts and buffers. By default the device creates one set per
//! processor.

use crate::algorithms::{Codecs, PreparedSet};
use crate::block::{BlockCache, BlockStream, Packer};
use crate::layout::Layout;
use crate::slot::{self, Slot};
use crate::{Config, Error, SLOT_BYTES};
use page::fork::{Mutex, Step};
use rustix_futex_sync::MutexGuard;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The contexts and buffers with which a thread compresses and decompresses. No use of a workspace
/// allocates memory.
pub(crate) struct Workspace {
    /// The index of the stream.
    pub(crate) index: usize,
    /// Whether a request has used the stream.
    is_used: bool,
    pub(crate) codecs: Codecs,
    /// The compressed bytes before they are stored in the pool. The buffer is larger than any
    /// codec's output for a slot.
    pub(crate) scratch: Box<[u8; 2 * SLOT_BYTES]>,
    /// Whether the last overwritten object was about as long as its replacement. If true, the next
    /// new object will probably be stored in the place of the object that it replaces.
    pub(crate) expects_same_place: bool,
    /// A buffer into which a slot is decompressed if only a part of the slot is read.
    pub(crate) block: Box<[u8; SLOT_BYTES]>,
    /// The stream for blocks of several slots, if the device has such blocks.
    blocks: Option<BlockStream>,
}

impl Workspace {
    /// Writes the bytes of `slot` from byte `at` on into `buf`. `nth` is the slot's number in
    /// errors.
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

    /// Returns the stream for blocks. The device must have blocks of several slots.
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

/// A workspace that shares no cache line with other data.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Workspace>);

#[derive(Debug)]
pub(crate) struct Streams {
    /// The workspaces of requests, followed by the workspace for jobs, if the device has one.
    workspaces: Box<[Padded]>,
    /// The number of workspaces for requests.
    requests: usize,
    /// The size of all workspaces in bytes, including the digests of dictionaries that the
    /// workspaces share.
    bytes: usize,
    /// The number of bytes in a stream that are not touched before the first use of the stream.
    bytes_by_use: usize,
    /// The number of streams that have been used.
    used: AtomicUsize,
}

impl Streams {
    pub(crate) fn new(config: &Config, layout: Layout) -> Result<Self, Error> {
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get());
        let count = config.streams.unwrap_or_else(processors).max(1);
        // One stream is reserved for jobs, in addition to the streams of requests.
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

    /// Locks or unlocks all streams for a fork.
    pub(crate) fn at_fork(&self, step: Step) {
        self.workspaces.iter().for_each(|workspace| workspace.0.at_fork(step));
    }

    pub(crate) fn len(&self) -> usize {
        self.workspaces.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the size in bytes of the streams that have not been used yet. An unused stream
    /// contains only zeros, for which the system has not allocated memory.
    pub(crate) fn unused_bytes(&self) -> usize {
        (self.len() - self.used.load(Relaxed)) * self.bytes_by_use
    }

    /// Returns a free stream, in this order of preference: this processor's stream, another stream
    /// that has been used, an unused stream. If all streams are busy, waits for this processor's
    /// stream.
    pub(crate) fn get(&self) -> MutexGuard<'_, Workspace> {
        let used = self.used.load(Relaxed).clamp(1, self.requests);
        let first = rustix::thread::sched_getcpu() % used;
        let own = (0..used).map(|step| (first + step) % used);
        let free = own.chain(used..self.requests).find_map(|nth| self.workspaces[nth].0.try_lock());
        self.begun(free.unwrap_or_else(|| self.workspaces[first].0.lock()))
    }

    /// Returns the stream that is reserved for jobs. If the device reserves none, returns a stream
    /// of requests.
    pub(crate) fn for_job(&self) -> MutexGuard<'_, Workspace> {
        match self.workspaces.get(self.requests) {
            Some(workspace) => self.begun(workspace.0.lock()),
            None => self.get(),
        }
    }

    /// Counts the stream as used if no request has used it before.
    fn begun<'s>(&self, mut stream: MutexGuard<'s, Workspace>) -> MutexGuard<'s, Workspace> {
        if !stream.is_used {
            stream.is_used = true;
            self.used.fetch_add(1, Relaxed);
        }
        stream
    }
}

//! The same pages on three sides: the raw codec, a uzram device, and the kernel's device. For each
//! job, the sides take turns of a few milliseconds, so a disturbance of the machine affects all
//! sides.

use std::ops::Range;

use crate::codec::RawCodec;
use fastrand::Rng;
use measure::clock::{Clock, Stopwatch};
use measure::page::{PAGE_SIZE, same_filled};
use zram::{Config, Device};

use crate::Error;
use crate::aligned::AlignedBuf;
use crate::blobs::Blobs;
use crate::kernel::{KernelZram, Rival};
use crate::threads::together;

/// The number of pages that one side processes in a turn.
const TURN: usize = 1024;
/// The number of pages in the largest request.
const REQUEST_MAX: usize = 16;
/// The distance in pages by which `shift` grows before slots are overwritten with other pages.
const STEP: usize = 49 * REQUEST_MAX;

/// The side that does a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Raw,
    Ours,
    Kernel,
}

pub(super) const SIDES: [Side; 3] = [Side::Raw, Side::Ours, Side::Kernel];

/// The operation on every slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Writes again the page that the slot already holds.
    Rewrite,
    /// Writes another page to the slot.
    Replace,
    /// Reads the slots in random order.
    ReadAnywhere,
    /// Reads the slots in order.
    Read,
}

impl Job {
    fn writes(self) -> bool {
        matches!(self, Job::Rewrite | Job::Replace)
    }
}

/// Pages, the same pages compressed by the raw codec, and devices that hold the pages.
pub(super) struct Bed {
    pages: AlignedBuf,
    compressed: Blobs,
    ours: Device,
    kernel: Rival<KernelZram>,
    /// Slot n holds page n + `shift`, modulo the number of pages.
    shift: usize,
    /// The slots in random order.
    order: Vec<usize>,
}

/// A codec, and the buffer for the pages that are read.
struct Tools {
    codec: RawCodec,
    back: AlignedBuf,
}

impl Tools {
    fn new() -> Result<Tools, Error> {
        Ok(Tools { codec: RawCodec::lz4()?, back: AlignedBuf::zeroed(REQUEST_MAX * PAGE_SIZE) })
    }
}

impl Bed {
    /// Creates devices with all pages except same-filled pages, because these need no codec.
    pub(super) fn new(all: &[u8], seed: u64) -> Result<Bed, Error> {
        let kept: Vec<&[u8]> =
            all.chunks_exact(PAGE_SIZE).filter(|page| same_filled(page).is_none()).collect();
        let count = kept.len() / TURN * TURN;
        let mut pages = AlignedBuf::zeroed(count * PAGE_SIZE);
        let (mut codec, mut compressed) = (RawCodec::lz4()?, Blobs::default());
        for (page, kept) in pages.chunks_exact_mut(PAGE_SIZE).zip(&kept) {
            page.copy_from_slice(kept);
            compressed.push(codec.compress(page)?);
        }
        if count == 0 {
            let reason = format!("{} pages are too few", kept.len());
            return Err(Error::Setup { reason, remedy: "give a --limit of 8M or more" });
        }
        let bytes = (count * PAGE_SIZE) as u64;
        let ours = Device::new(Config::new(bytes)?)?;
        ours.write(0, &pages)?;
        let kernel = KernelZram::acquire("lz4", bytes)?;
        if let Rival::Present(kernel) = &kernel {
            kernel.write(0, &pages, 1 << 20)?;
        }
        let mut order: Vec<usize> = (0..count).collect();
        Rng::with_seed(seed).shuffle(&mut order);
        Ok(Bed { pages, compressed, ours, kernel, shift: 0, order })
    }

    /// Returns the number of bytes that a job processes.
    pub(super) fn bytes(&self) -> usize {
        self.count() * PAGE_SIZE
    }

    fn count(&self) -> usize {
        self.order.len()
    }

    /// Returns the reason why the kernel's device is missing, or `None` if it is present.
    pub(super) fn kernel_absent(&self) -> Option<&str> {
        match &self.kernel {
            Rival::Present(_) => None,
            Rival::Absent(reason) => Some(reason),
        }
    }

    /// Returns the numbers of the pages in the slots from `slot` to `slot + count - 1`.
    fn held(&self, slot: usize, count: usize) -> Range<usize> {
        let first = (slot + self.shift) % self.count();
        first..first + count
    }

    fn page_bytes(&self, pages: Range<usize>) -> &[u8] {
        &self.pages[pages.start * PAGE_SIZE..pages.end * PAGE_SIZE]
    }

    /// Verifies that all sides return the expected pages.
    pub(super) fn check(&self) -> Result<(), Error> {
        let mut tools = Tools::new()?;
        for slot in 0..self.count() {
            let held = self.held(slot, 1);
            for side in SIDES {
                self.request(side, false, slot, 1, &mut tools)?;
                let expected = self.page_bytes(held.clone());
                let is_absent = side == Side::Kernel && self.kernel_absent().is_some();
                if !is_absent {
                    let (offset, found) = ((slot * PAGE_SIZE) as u64, &tools.back[..PAGE_SIZE]);
                    Error::compare(&format!("{side:?}"), offset, expected, found)?;
                }
            }
        }
        Ok(())
    }

    /// Executes one request for `count` slots from `slot` on: writes the pages that the slots must
    /// hold, or reads the slots.
    fn request(
        &self,
        side: Side,
        writes: bool,
        slot: usize,
        count: usize,
        tools: &mut Tools,
    ) -> Result<(), Error> {
        let offset = (slot * PAGE_SIZE) as u64;
        let held = self.held(slot, count);
        let Tools { codec, back } = tools;
        let back = &mut back[..count * PAGE_SIZE];
        match (side, writes) {
            (Side::Raw, true) => {
                for page in self.page_bytes(held).chunks_exact(PAGE_SIZE) {
                    codec.compress(page)?;
                }
            }
            (Side::Raw, false) => {
                for (page, back) in held.zip(back.chunks_exact_mut(PAGE_SIZE)) {
                    codec.decompress(self.compressed.get(page), back)?;
                }
            }
            (Side::Ours, true) => self.ours.write(offset, self.page_bytes(held))?,
            (Side::Ours, false) => self.ours.read(offset, back)?,
            (Side::Kernel, _) => match &self.kernel {
                Rival::Present(kernel) if writes => {
                    kernel.write_at(offset, self.page_bytes(held))?
                }
                Rival::Present(kernel) => kernel.read_at(offset, back)?,
                Rival::Absent(_) => {}
            },
        }
        Ok(())
    }

    /// Processes every slot once on each side, in turns, with `each` slots per request. Returns the
    /// seconds of each side.
    pub(super) fn round(&mut self, job: Job, each: usize) -> Result<[f64; 3], Error> {
        if job == Job::Replace {
            self.shift = (self.shift + STEP) % self.count();
        }
        let mut tools = Tools::new()?;
        let slots: Vec<usize> = (0..self.count()).step_by(each).collect();
        let slots = if job == Job::ReadAnywhere { &self.order } else { &slots };
        in_pieces(slots, TURN / each, |side, slot| {
            self.request(SIDES[side], job.writes(), slot, each, &mut tools)
        })
    }

    /// Like `round`, but fills a fresh uzram device. Returns the seconds of the codec and of the
    /// device.
    pub(super) fn fill(&self) -> Result<[f64; 2], Error> {
        let fresh = Device::new(Config::new(self.bytes() as u64)?)?;
        let mut codec = RawCodec::lz4()?;
        let slots: Vec<usize> = (0..self.count()).collect();
        in_pieces(&slots, TURN, |side, slot| {
            let page = self.page_bytes(slot..slot + 1);
            match side {
                0 => codec.compress(page).map(drop).map_err(Error::from),
                _ => Ok(fresh.write((slot * PAGE_SIZE) as u64, page)?),
            }
        })
    }

    /// Returns the seconds in which `threads` threads process all slots, each an equal share.
    pub(super) fn on_threads(&self, side: Side, job: Job, threads: usize) -> Result<f64, Error> {
        let share = self.count() / threads;
        let done = together(threads, |index| {
            let mut tools = Tools::new()?;
            (index * share..(index + 1) * share)
                .try_for_each(|slot| self.request(side, job.writes(), slot, 1, &mut tools))
        })?;
        Ok(done.seconds)
    }
}

/// Calls `one(side, slot)` for all slots on each of `SIDES` sides, which take turns of `turn`
/// slots. Returns the seconds of each side.
fn in_pieces<const SIDES: usize>(
    slots: &[usize],
    turn: usize,
    mut one: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<[f64; SIDES], Error> {
    let mut watches = [(); SIDES].map(|()| Stopwatch::new(Clock::Wall));
    for (nth, turn) in slots.chunks(turn).enumerate() {
        for place in 0..SIDES {
            // The first side loads the pages into the processor's caches, so another side is first
            // each time.
            let side = (nth + place) % SIDES;
            watches[side].time(|| turn.iter().try_for_each(|&slot| one(side, slot)))?;
        }
    }
    Ok(watches.map(|watch| watch.seconds()))
}

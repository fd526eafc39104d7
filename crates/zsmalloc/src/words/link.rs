//! Links: how nodes are named, in the directory, in branches and behind packed nodes.
//!
//! ```text
//!   link     | converting | 0 ...     | address of the node, a multiple of 16 | kind |     0: none
//!   head     | count of keys: 16 bits | address of the node behind            | kind |
//!              bit 63                   bits 47 to 4                            4 bits
//! ```
//! One load of a head tells how many keys there are, and what was behind them at that moment.

use super::kind::{ALIGN, Kind};
use super::nodes::Fresh;
use super::retired::{Behind, Retired};
use crate::sync::{AtomicLink, Ordering};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

const CONVERTING: usize = 1 << 63;
const COUNT_SHIFT: u32 = 48;
/// Bits of a node's address: the system gives no others unless it is asked to.
pub(super) const ADDRESS: usize = (1 << COUNT_SHIFT) - ALIGN;

/// A node by address and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) address: NonNull<u8>,
    pub(super) kind: Kind,
}

impl Link {
    #[inline]
    fn from_raw(raw: *mut u8) -> Option<Self> {
        let address = NonNull::new(raw.map_addr(|address| address & ADDRESS))?;
        Some(Link { address, kind: Kind((raw.addr() % ALIGN) as u8) })
    }

    fn to_raw(self) -> *mut u8 {
        self.address.as_ptr().map_addr(|address| address | self.kind.0 as usize)
    }
}

/// The beginning of a packed node.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Head(AtomicLink);

impl Head {
    pub(super) fn new() -> Self {
        Head(AtomicLink::new(null_mut()))
    }

    /// How many keys there are, and the node behind.
    pub(super) fn load(&self) -> (usize, Option<Link>) {
        let raw = self.0.load(Ordering::Acquire);
        (raw.addr() >> COUNT_SHIFT, Link::from_raw(raw))
    }

    /// Says that there are so many keys, and that node behind: by the only one who changes it.
    pub(super) fn store(&self, count: usize, behind: Option<Link>) {
        let raw = behind.map_or(null_mut(), Link::to_raw);
        self.0.store(raw.map_addr(|address| address | count << COUNT_SHIFT), Ordering::Release);
    }
}

/// What names the first node of a stem or a leaf.
#[derive(Debug)]
pub(super) struct Chain<E> {
    link: AtomicLink,
    nodes: PhantomData<fn() -> E>,
}

impl<E> Chain<E> {
    pub(super) fn new() -> Self {
        Chain { link: AtomicLink::new(null_mut()), nodes: PhantomData }
    }

    /// Whether there is a node.
    pub(super) fn is_made(&self) -> bool {
        !self.link.load(Ordering::Acquire).is_null()
    }

    /// The first node's name.
    #[inline]
    pub(super) fn link(&self) -> Option<Link> {
        Link::from_raw(self.link.load(Ordering::Acquire))
    }

    /// Names the first node of a chain without nodes.
    pub(super) fn publish(&self, _alone: &mut Retired, node: Fresh<E>) {
        self.link.store(node.link().to_raw(), Ordering::Release);
    }

    /// Says that the nodes from `node` on are being converted.
    pub(super) fn begin(&self, _alone: &mut Retired, node: Link) {
        self.link.store(converting(node), Ordering::Release);
    }

    /// Ends a conversion, if there is one: the nodes stay.
    pub(super) fn give_up(&self) {
        let raw = self.link.load(Ordering::Acquire);
        if raw.addr() & CONVERTING != 0 {
            let to = raw.map_addr(|address| address & !CONVERTING);
            // Refused where it is over.
            let _ = self.link.compare_exchange(raw, to, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Ends a conversion whose words are all frozen: `to` is named from now on, unless a reader gave the
    /// conversion up. `behind` says what becomes of a wide node behind those that were converted.
    pub(super) fn commit(
        &self,
        retired: &mut Retired,
        node: Link,
        to: Option<Link>,
        behind: Behind,
    ) -> bool {
        let to = to.map_or(null_mut(), Link::to_raw);
        let swapped =
            self.link.compare_exchange(converting(node), to, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_ok() {
            retired.add(node, behind);
        }
        swapped.is_ok()
    }
}

fn converting(node: Link) -> *mut u8 {
    node.to_raw().map_addr(|address| address | CONVERTING)
}

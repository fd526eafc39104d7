//! Properties of regions that do not depend on the backend. Most tests run with each backend that
//! the system permits. The process is aborted if a fault uses the heap.
#![allow(unsafe_code, clippy::unwrap_used)]

mod bounds;
mod forks;
mod heap;
mod kinds;
mod managed;
mod refusals;
mod region;
mod rights;
mod shared;
mod system_calls;

use kinds::{MIB, PAGE, backends, end_of, for_each_backend, turn};
use zmem::{BackendKind, BlockOrder, Options, Region};

/// Returns whether the backend uses no userfaultfd.
fn is_signal(backend: BackendKind) -> bool {
    use BackendKind::{Signal, SignalMappings, SignalRemap};
    matches!(backend, Signal | SignalMappings | SignalRemap)
}

fn is_answered_by_threads(region: &Region) -> bool {
    region.stats().backend == "userfaultfd"
}

/// Calls `work` with each combination of a backend and a block order.
fn for_each_option(blocks: &[BlockOrder], mut work: impl FnMut(Options)) {
    for_each_backend(|backend| {
        for &block in blocks {
            work(Options { backend, block, ..Options::default() });
        }
    });
}

/// All fixed block orders, and two adaptive block orders.
const ORDERS: [BlockOrder; 7] = [
    BlockOrder::Fixed(0),
    BlockOrder::Fixed(1),
    BlockOrder::Fixed(2),
    BlockOrder::Fixed(3),
    BlockOrder::Fixed(4),
    BlockOrder::Adaptive(2),
    BlockOrder::Adaptive(4),
];

//! zmem: memory that compresses itself.
//!
//! ```text
//!   Region -> Pager: words of blocks | chunks | limit | clock | seats | backend | zram::Device
//!   touch of an absent block -> SIGSEGV, SIGBUS -> handler -> registry: whose address? -> seat -.
//!                            -> userfaultfd message -> fault thread ----------------> Pager::fault
//!     Probation: opened again | Untouched: filled with zeros | Evicted: read from the device
//!   near the limit: worker, or the fault itself -> Pager::evict: clock -> probation -> the device
//! ```
//!
//! The rules of a block's states (zm-S1 ...), of handlers (zm-H1 ...), of the limit and of forks
//! stand in `docs/design.md`.

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod backend;
#[cfg(not(loom))]
mod calls;
#[cfg(not(loom))]
mod chunk;
#[cfg_attr(loom, allow(dead_code))]
mod chunk_word;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod depart;
#[cfg(not(loom))]
mod descriptor;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod evict;
#[cfg(not(loom))]
mod fatal;
#[cfg(not(loom))]
mod fault;
#[cfg(not(loom))]
mod fault_threads;
#[cfg(not(loom))]
mod forks;
#[cfg(not(loom))]
mod gate;
#[cfg(not(loom))]
mod handler;
#[cfg(not(loom))]
mod in_handler;
#[cfg(not(loom))]
mod kept_file;
#[cfg(not(loom))]
mod limit;
#[cfg(not(loom))]
mod locked;
#[cfg(not(loom))]
mod mappings;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod next_handler;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod order;
#[cfg(not(loom))]
mod pager;
#[cfg(not(loom))]
mod policy;
#[cfg(not(loom))]
mod probes;
#[cfg(not(loom))]
mod process;
#[cfg(not(loom))]
mod process_memory;
#[cfg(not(loom))]
mod ranges;
#[cfg(not(loom))]
mod recent;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod seats;
#[cfg(not(loom))]
mod signals;
#[cfg_attr(loom, allow(dead_code))]
mod state;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod store;
mod sync;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod uffd;
#[cfg(not(loom))]
mod uses;
#[cfg(not(loom))]
mod waker;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use arena::Arena;
#[cfg(not(loom))]
pub use error::Error;
#[cfg(not(loom))]
pub use handler::{answer_fault, set_next_bus_handler, set_next_handler};
#[cfg(not(loom))]
pub use in_handler::in_handler;
#[cfg(not(loom))]
pub use locked::Locked;
#[cfg(not(loom))]
pub use options::{Advice, BackendKind, BlockOrder, Fork, Options};
#[cfg(not(loom))]
pub use region::Region;
#[cfg(not(loom))]
pub use stats::{Histogram, Stats};
#[cfg(not(loom))]
pub use uses::Use;
// What `Options`, `Stats` and `Error` name of other crates.
#[cfg(not(loom))]
pub use zram::{
    Codec, CodecError, Dictionary, Error as DeviceError, OrderStat, Params, by_name, codecs,
};

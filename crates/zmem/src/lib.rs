//! zmem: memory whose cold blocks are compressed, and filled again when they are accessed.
//!
//! ```text
//!   Region -> Pager: words of blocks | chunks | limit | clock | contexts | backend | zram::Device
//!   touch of an absent block -> SIGSEGV, SIGBUS -> handler -> registry: whose? --> context -.
//!                            -> userfaultfd message -> fault thread ----------> fault::handle
//!     Probation: opened again | Untouched: filled with zeros | Evicted: read from the device
//!   near the limit: worker, or the fault itself -> evict: clock -> probation -> the device
//! ```
//!
//! The rules for a block's states (zm-S1 ...), handlers (zm-H1 ...), the limit and forks are in
//! `docs/design/pager.md`.

// Loom builds contain only the modules with loom models, and the modules that these need.
#[cfg_attr(loom, allow(dead_code))]
mod chunk_word;
#[cfg_attr(loom, allow(dead_code))]
mod policy;
#[cfg_attr(loom, allow(dead_code))]
mod queue;
#[cfg_attr(loom, allow(dead_code))]
mod safepoint;
#[cfg_attr(loom, allow(dead_code))]
mod state;
mod sync;

/// The modules that loom builds omit.
#[cfg(not(loom))]
#[path = "."]
mod all {
    pub(crate) mod arena;
    pub(crate) mod backend;
    pub(crate) mod background;
    pub(crate) mod calls;
    pub(crate) mod chunk;
    pub(crate) mod clock;
    pub(crate) mod compressor_thread;
    pub(crate) mod contexts;
    pub(crate) mod counters;
    pub(crate) mod depart;
    pub(crate) mod descriptor;
    pub(crate) mod error;
    pub(crate) mod evict;
    pub(crate) mod evict_open;
    pub(crate) mod fault;
    pub(crate) mod forks;
    pub(crate) mod gate;
    pub(crate) mod handler;
    pub(crate) mod limit;
    pub(crate) mod mappings;
    pub(crate) mod memory;
    pub(crate) mod next_handler;
    pub(crate) mod options;
    pub(crate) mod owned;
    pub(crate) mod pager;
    pub(crate) mod pager_thread;
    pub(crate) mod process;
    pub(crate) mod range_calls;
    pub(crate) mod recent;
    pub(crate) mod region;
    pub(crate) mod registry;
    pub(crate) mod room;
    pub(crate) mod signals;
    pub(crate) mod stats;
    pub(crate) mod stored;
    pub(crate) mod table;
    pub(crate) mod threads;
    pub(crate) mod uffd;
    pub(crate) mod uses;
    pub(crate) mod worker;

    pub use crate::state::WORD_LAYOUT;
    pub use arena::{Arena, Holding};
    pub use backend::ARENA_BACKENDS;
    pub use background::StartThread;
    pub use calls::Locked;
    pub use counters::{Histogram, milliseconds};
    pub use descriptor::File;
    pub use error::Error;
    pub use handler::{answer_fault, set_next_bus_handler, set_next_handler};
    pub use limit::{Relatives, SharedLimit, Sum, Usage};
    pub use options::{Advice, BackendKind, BlockOrder, Fork, Options};
    pub use process::processors;
    pub use region::Region;
    pub use signals::in_handler;
    pub use stats::Stats;
    pub use threads::SAFEPOINT;
    pub use uses::Use;
    // Types of other crates that `Options`, `Stats` and `Error` contain.
    pub use zram::{
        Codec, CodecError, Dictionary, Error as DeviceError, OrderStat, Params, by_name, codecs,
    };
}
#[cfg(not(loom))]
pub use all::*;

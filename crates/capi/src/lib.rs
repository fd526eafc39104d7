//! libuzram: uzram for programs in C and C++. `include/uzram.h` documents it.
//!
//! ```text
//!   a call from C -> answer: panics are caught -> border: pointers are checked -> uzram
//!                 <- 0, or a negative errno and the thread's message
//! ```
//!
//! Objects are opaque to C: a `Device` there is a `Box` here, which `_new` returns and `_destroy`
//! consumes. If a pointer may be NULL, the function has an `Option`, and NULL is EINVAL.
//!
//! A Rust library with C functions of its own may also export these. It depends on this package and
//! names it, so that it is linked; a `cdylib` or `staticlib` then exports them:
//!
//! ```
//! use uzram_capi as _;
//! ```

mod answer;
mod backing;
mod border;
mod cache;
mod device;
mod jobs;
mod pinned;
mod pool;
mod region;
mod structs;

pub use structs::{
    CacheOptions, CacheStat, Constant, DeviceOptions, DeviceStat, Field, PoolOptions, PoolStat,
    RecompressOptions, Recompressed, RegionOptions, RegionStat, Struct, WrittenBack, constants,
    structs,
};

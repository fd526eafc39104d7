//! libuzram: uzram for programs in C and C++. `include/uzram.h` documents it.
//!
//! ```text
//!   a call from C -> answer: panics are caught -> border: pointers are looked at -> uzram
//!                 <- 0, or a negative errno and the thread's message
//! ```
//!
//! Objects are opaque to C: a `Device` there is a `Box` here, which `_new` gives out and `_destroy`
//! takes back. Where a pointer may be NULL the function has an `Option`, and NULL is EINVAL.
//!
//! A library in Rust with functions of its own for C may bring these too. It depends on this
//! package, and names it, so that it is linked; then a `cdylib` or `staticlib` exports them:
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

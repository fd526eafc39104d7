//! libuzram: uzram for programs in C and C++. `include/uzram.h` documents the library.
//!
//! ```text
//!   a call from C -> answer: panics are caught -> border: pointers are checked -> uzram
//!                 <- 0, or a negative errno and the thread's message
//! ```
//!
//! Objects are opaque to C. A pointer to a `Device` is a `Box`, which `_new` returns and `_destroy`
//! consumes. If a pointer can be NULL, the parameter is an `Option`, and NULL fails with EINVAL.
//!
//! A Rust library that exports its own C functions can also export the functions of this package.
//! Such a library depends on this package, and refers to it in the code so that the package is
//! linked. A `cdylib` or `staticlib` then exports the functions:
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
mod lru;
mod pinned;
mod policy;
mod pool;
mod region;
mod structs;

pub use structs::{
    CacheOptions, CacheStat, Constant, DeviceOptions, DeviceStat, Field, LruOptions, LruStat,
    OnEvict, PoolOptions, PoolStat, RecompressOptions, Recompressed, RegionOptions, RegionStat,
    Struct, WrittenBack, constants, structs,
};

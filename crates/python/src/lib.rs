//! uzram for Python: the extension module `uzram._uzram`, which the package `uzram` re-exports.

mod buffer;
mod cache;
mod codec;
mod device;
mod error;
mod policy;
mod pool;
mod region;
mod shared;
mod stats;
mod work;

/// The part of the package `uzram` that is written in Rust. When a build of Python without the
/// global interpreter lock loads the module, Python enables this lock. The module's own locks are
/// held only by threads that hold the global lock, so at a fork they are free.
#[pyo3::pymodule(name = "_uzram", gil_used = true)]
mod module {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::cache::Cache;
    #[pymodule_export]
    use crate::codec::{algorithms, train_dictionary};
    #[pymodule_export]
    use crate::device::Device;
    #[pymodule_export]
    use crate::error::Error;
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::region::Region;
    #[pymodule_export]
    use crate::region::locked::RegionLock;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

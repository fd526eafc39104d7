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

/// The part of the package `uzram` that is written in Rust. A build of Python without the global
/// interpreter lock enables this lock when it loads the module. So at a fork the module's own locks
/// are free, because only a thread that holds the global lock can hold them.
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

//! uzram for Python: the extension module `uzram._uzram`, which the package `uzram` re-exports.

mod buffer;
mod error;

/// What is written in Rust of the package `uzram`.
#[pyo3::pymodule(name = "_uzram")]
mod module {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::error::Error;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

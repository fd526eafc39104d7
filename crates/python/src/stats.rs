//! The classes of statistics, which are written in Python: `uzram._stats`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns an object of the class `name`, created from its fields.
pub(crate) fn make<'py>(
    py: Python<'py>,
    name: &str,
    fields: &[(&str, u64)],
    optional: &[(&str, Option<u64>)],
) -> PyResult<Bound<'py, PyAny>> {
    let named = PyDict::new(py);
    for (name, value) in fields {
        named.set_item(name, value)?;
    }
    for (name, value) in optional {
        named.set_item(name, value)?;
    }
    py.import("uzram._stats")?.getattr(name)?.call((), Some(&named))
}

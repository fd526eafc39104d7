//! The plan of an injection: which host is injected, and with which settings.

use std::ffi::CString;

/// The host (the executable `uzram-host`) that is injected into programs.
#[derive(Debug)]
pub struct Plan {
    /// The path of the host's file.
    pub host: CString,
    /// The settings of the runtime, which are an argument of the host.
    pub settings: CString,
    /// The address of the vDSO (AT_SYSINFO_EHDR).
    pub vdso: usize,
}

//! The memory of this process.

use super::fields::{Fields, Untold};

const ROLLUP: &str = "/proc/self/smaps_rollup";
const STATUS: &str = "/proc/self/status";

/// The exact memory use of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldMemory {
    /// Resident and swapped memory in bytes. Swapping by the kernel does not change this sum.
    pub held: u64,
    /// The size of page tables in bytes (VmPTE). `held` does not include page tables.
    pub page_tables: u64,
}

impl HeldMemory {
    /// Returns the current memory use.
    ///
    /// # Errors
    /// Fails if the kernel does not report it.
    pub fn now() -> Result<Self, Untold> {
        let rollup = Fields::read(ROLLUP);
        let held = rollup.known("Rss")? + rollup.known("Swap")?;
        Ok(HeldMemory { held, page_tables: Fields::read(STATUS).known("VmPTE")? })
    }
}

/// The memory of this process. Values that the kernel does not report are `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMemory {
    /// The size of resident memory in bytes, including shared pages.
    pub resident: Option<u64>,
    /// The size of swapped memory in bytes.
    pub swapped: Option<u64>,
    /// The size of page tables in bytes (VmPTE).
    pub page_tables: Option<u64>,
}

impl ProcessMemory {
    /// Returns the current memory use. `status` is used only if `smaps_rollup` is missing, because
    /// `status` counts resident pages approximately.
    pub fn now() -> Self {
        let (rollup, status) = (Fields::read(ROLLUP), Fields::read(STATUS));
        ProcessMemory {
            resident: rollup.bytes("Rss").or_else(|| status.bytes("VmRSS")),
            swapped: rollup.bytes("Swap").or_else(|| status.bytes("VmSwap")),
            page_tables: status.bytes("VmPTE"),
        }
    }

    /// Returns the resident and swapped memory in bytes.
    fn held(&self) -> Option<i64> {
        let bytes = self.resident? + self.swapped.unwrap_or(0);
        i64::try_from(bytes).ok()
    }

    /// Returns the growth of the memory since `before` in bytes.
    pub fn growth_since(&self, before: &ProcessMemory) -> Option<i64> {
        Some(self.held()? - before.held()?)
    }
}

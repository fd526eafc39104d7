//! What this process holds.

use super::fields::{Fields, Untold};

const ROLLUP: &str = "/proc/self/smaps_rollup";
const STATUS: &str = "/proc/self/status";

/// What this process holds, counted page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldMemory {
    /// Resident and swapped together: what the process holds however the machine is pressed.
    pub held: u64,
    /// Page tables (VmPTE), beside that.
    pub page_tables: u64,
}

impl HeldMemory {
    /// Returns the figures as of now.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn now() -> Result<Self, Untold> {
        let rollup = Fields::read(ROLLUP);
        let held = rollup.known("Rss")? + rollup.known("Swap")?;
        Ok(HeldMemory { held, page_tables: Fields::read(STATUS).known("VmPTE")? })
    }
}

/// What this process holds. `None` is what the kernel does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMemory {
    /// Resident, shared pages included.
    pub resident: Option<u64>,
    /// Swapped out.
    pub swapped: Option<u64>,
    /// Page tables (VmPTE).
    pub page_tables: Option<u64>,
}

impl ProcessMemory {
    /// Returns the figures as of now. `status` counts resident pages roughly, so it serves only
    /// where `smaps_rollup` is missing.
    pub fn now() -> Self {
        let (rollup, status) = (Fields::read(ROLLUP), Fields::read(STATUS));
        ProcessMemory {
            resident: rollup.bytes("Rss").or_else(|| status.bytes("VmRSS")),
            swapped: rollup.bytes("Swap").or_else(|| status.bytes("VmSwap")),
            page_tables: status.bytes("VmPTE"),
        }
    }

    /// Resident and swapped together: what the process holds however the machine is pressed.
    fn held(&self) -> Option<i64> {
        let bytes = self.resident? + self.swapped.unwrap_or(0);
        i64::try_from(bytes).ok()
    }

    /// Returns by how many bytes it holds more than `before`.
    pub fn growth_since(&self, before: &ProcessMemory) -> Option<i64> {
        Some(self.held()? - before.held()?)
    }
}

//! Values of this process from /proc/self/status.

/// Returns the number after `label` in `/proc/self/status`, if the line exists.
fn process_status(label: &str, radix: u32) -> Option<u64> {
    // The file contains the program's name, which need not be UTF-8.
    let status = std::fs::read("/proc/self/status").ok()?;
    let status = String::from_utf8_lossy(&status);
    let digits = status.lines().find_map(|line| line.strip_prefix(label))?;
    u64::from_str_radix(digits.trim(), radix).ok()
}

/// Returns a mask of the signals that this process ignores.
pub(crate) fn ignored_signals() -> u64 {
    process_status("SigIgn:", 16).unwrap_or(0)
}

/// Returns the permissions of `mode` that this process's umask permits for a new file.
pub(crate) fn masked(mode: u32) -> u32 {
    mode & !process_status("Umask:", 8).map_or(0o077, |umask| umask as u32)
}

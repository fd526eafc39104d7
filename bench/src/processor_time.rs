//! The processor time of processes, as the kernel counts it, in ticks.

use std::fs;
use std::path::Path;

use crate::Error;

/// The indices of user and system time in `/proc/PID/stat`. Index 0 is the field after the
/// command's name.
const OWN: [usize; 2] = [11, 12];
const CHILDREN: [usize; 2] = [13, 14];

/// Returns the seconds of processor time that the process `pid` has used.
pub fn of_process(pid: u32) -> Result<f64, Error> {
    seconds(Path::new(&format!("/proc/{pid}/stat")), OWN)
}

/// Returns the seconds of processor time of this process's descendants. This includes only
/// descendants whose exit status has been collected by a wait.
pub fn of_children() -> Result<f64, Error> {
    seconds(Path::new("/proc/self/stat"), CHILDREN)
}

fn seconds(path: &Path, fields: [usize; 2]) -> Result<f64, Error> {
    let text = fs::read_to_string(path).map_err(Error::file("read", path, "mount /proc"))?;
    let ticks = sum(&text, fields).ok_or_else(|| Error::Malformed {
        thing: path.display().to_string(),
        text: text.clone(),
        expected: "52 fields",
    })?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns the sum of the fields with the indices `fields`. The command's name can contain spaces,
/// so the fields are counted from its closing parenthesis.
fn sum(stat: &str, fields: [usize; 2]) -> Option<u64> {
    let values: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
    fields.iter().map(|&field| values.get(field)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_behind_the_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 50 60 700 800 20 0 1 0";
        assert_eq!(sum(stat, OWN), Some(110));
        assert_eq!(sum(stat, CHILDREN), Some(1500));
        assert_eq!(sum("7 (a) S 1", OWN), None);
    }
}

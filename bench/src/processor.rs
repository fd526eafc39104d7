//! The name of the processor on which figures were measured. Every measured time depends on the
//! processor.

use std::fs;

/// Returns the processor's name, its model and the number of processors of this machine, for
/// example `AMD EPYC 9B14, family 25 model 17, 2 of them`. If the system does not report a
/// processor, returns the architecture.
pub fn name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    described(&text).unwrap_or_else(|| format!("unknown, {}", std::env::consts::ARCH))
}

/// Parses the text of `/proc/cpuinfo` in the format of x86 or of ARM. The format of ARM contains
/// numbers instead of a name.
fn described(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let named = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        cpuinfo.lines().find_map(named)
    };
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let name = match field("model name") {
        Some(name) => {
            let [family, model] = [field("cpu family"), field("model")];
            format!("{name}, family {} model {}", family?, model?)
        }
        None => {
            format!("ARM, implementer {} part {}", field("CPU implementer")?, field("CPU part")?)
        }
    };
    Some(format!("{name}, {count} of them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let one = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC 9B45\n\n";
        let two = one.replace(": 0", ": 1");
        assert_eq!(
            described(&format!("{one}{two}")).as_deref(),
            Some("AMD EPYC 9B45, family 26 model 2, 2 of them")
        );
        let arm =
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n";
        assert_eq!(described(arm).as_deref(), Some("ARM, implementer 0x41 part 0xd4f, 1 of them"));
        assert_eq!(described(""), None);
        assert!(!name().is_empty());
    }
}

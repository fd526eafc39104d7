//! The rights (user, group, capabilities) that a program gets from its file.

const SETUID: u32 = 0o4000;
/// The mode bits of a setgid program. The kernel ignores the setgid bit of a file that its group is
/// not allowed to execute.
const SETGID_EXECUTABLE: u32 = 0o2010;

/// The properties of a file on which the rights of its program depend.
#[derive(Clone, Copy, Debug)]
pub struct FileRights {
    /// The mode of the file (`st_mode`).
    pub mode: u32,
    /// The IDs of the user and the group that own the file.
    pub owners: [u32; 2],
    /// Whether the file has capabilities (the attribute `security.capability`).
    pub has_capabilities: bool,
}

/// The conditions under which the kernel does not apply a file's set-ID bits and capabilities.
#[derive(Clone, Copy, Debug)]
pub struct Denial {
    /// The process has set PR_SET_NO_NEW_PRIVS.
    pub no_new_privs: bool,
    /// The file lies on a mount with the option `nosuid`.
    pub nosuid: bool,
}

/// The program's rights, compared with those of the process that executes the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// The program has the same rights as the process.
    Same,
    /// The program has the same rights as the process, but starts in secure mode (AT_SECURE),
    /// because the process is not permitted to gain the file's capabilities.
    Secure,
    /// The program has more rights than the process. The text names the property of the file that
    /// gives these rights.
    Raised(&'static str),
}

impl FileRights {
    /// Returns the rights that the kernel gives to the program in the file. `ids` are the effective
    /// user and group IDs of the process that executes the program. Calls `denial` only if the file
    /// would change the rights.
    pub fn of_program(&self, ids: [u32; 2], denial: impl FnOnce() -> Denial) -> Rights {
        let [of_user, of_group] = [0, 1].map(|nth| self.owners[nth] != ids[nth]);
        let has_capabilities = self.has_capabilities && ids[0] != 0;
        let reason = if self.mode & SETUID != 0 && of_user {
            "it is setuid"
        } else if self.mode & SETGID_EXECUTABLE == SETGID_EXECUTABLE && of_group {
            "it is setgid"
        } else if has_capabilities {
            "it has capabilities of its own (setcap)"
        } else {
            return Rights::Same;
        };
        match denial() {
            Denial { nosuid: true, .. } => Rights::Same,
            Denial { no_new_privs: true, .. } if has_capabilities => Rights::Secure,
            Denial { no_new_privs: true, .. } => Rights::Same,
            _ => Rights::Raised(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: [u32; 2] = [1000, 1000];

    fn rights(mode: u32, owners: [u32; 2], has_capabilities: bool, of: [u32; 2]) -> [Rights; 3] {
        let file = FileRights { mode, owners, has_capabilities };
        [(false, false), (true, false), (false, true)]
            .map(|(no_new_privs, nosuid)| file.of_program(of, || Denial { no_new_privs, nosuid }))
    }

    #[test]
    fn rights_are_those_that_the_kernel_gives() {
        let same = [Rights::Same; 3];
        for (mode, owners) in
            [(0o755, [0, 0]), (0o4755, [1000, 0]), (0o2755, [0, 1000]), (0o2745, [0, 0])]
        {
            assert_eq!(rights(mode, owners, false, USER), same, "{mode:o} {owners:?}");
        }
        for (mode, owners, word) in [(0o4755, [0, 1000], "setuid"), (0o2755, [1000, 0], "setgid")] {
            let [raised, denied, nosuid] = rights(mode, owners, false, USER);
            assert!(matches!(raised, Rights::Raised(reason) if reason.contains(word)), "{mode:o}");
            assert_eq!([denied, nosuid], [Rights::Same; 2], "{mode:o}");
        }
        let [raised, denied, nosuid] = rights(0o755, [0, 0], true, USER);
        assert!(matches!(raised, Rights::Raised(reason) if reason.contains("setcap")));
        assert_eq!([denied, nosuid], [Rights::Secure, Rights::Same]);
        assert_eq!(rights(0o755, [0, 0], true, [0, 0]), same);
    }
}

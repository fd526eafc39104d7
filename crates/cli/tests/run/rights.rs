//! Tests programs that get privileges from their files, or that start in secure mode (AT_SECURE).

use crate::programs::Programs;
use crate::support::{HOST, UZRAM, end};
use crate::{WAYS, end_of};
use rustix::fs::{XattrFlags, chown, setxattr};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// The file attribute `security.capability` that gives CAP_NET_RAW (revision 2, permitted and
/// effective).
const CAPABILITY: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
const NOBODY: u32 = testkit::rights::NOBODY;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("left out, as only root can give a file rights");
    }
    is_root
}

/// Copies programs to a folder that all users can read. Returns the paths of the copies. A child
/// process makes the copies. Otherwise children of other tests could keep a file open that this
/// process has written (ETXTBSY).
fn copied<const N: usize>(programs: &Programs, paths: [&str; N]) -> [String; N] {
    fs::set_permissions(programs.path(), Permissions::from_mode(0o755)).unwrap();
    paths.map(|path| {
        let copy = programs.path().join(path.rsplit('/').next().unwrap());
        let mut command = Command::new("install");
        assert!(command.args(["-m", "755", path]).arg(&copy).status().unwrap().success());
        copy.into_os_string().into_string().unwrap()
    })
}

/// No host can be injected into a program that starts in secure mode.
#[test]
fn a_host_runs_programs_in_the_secure_mode() {
    if !is_root() {
        return;
    }
    let programs = Programs::new();
    let [uzram, _, shell] = copied(&programs, [UZRAM, HOST, "/bin/sh"]);
    let capability = CAPABILITY.map(u32::to_le_bytes).concat();
    let flags = XattrFlags::empty();
    setxattr(&shell, "security.capability", &capability, flags).unwrap();
    let seen = "readlink /proc/$$/exe";
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"];
    let line = format!("{shell} -c '{seen}'; exit 4");
    for (command, code) in [([&*shell, "-c", seen], 0), (["sh", "-c", &line], 4)] {
        let mut started = Command::new("setpriv");
        started.args(nobody).args([&uzram, "run"]).args(WAYS[0]).args(command);
        let ended = end(&mut started);
        assert!(ended.out.ends_with("uzram-host\n"), "{command:?}: {ended:?}");
        assert_eq!((ended.code, &*ended.err), (Some(code), ""), "{command:?}");
    }

    let other_group = "import os; os.setegid(65534); os.execv('/bin/sh', ['sh', '-c', \
                       'readlink /proc/$$/exe'])";
    let ended = end_of(WAYS[0], &["/usr/bin/python3", "-c", other_group]);
    assert!(ended.out.ends_with("uzram-host\n") && ended.err.is_empty(), "{ended:?}");
}

#[test]
fn a_line_names_a_program_with_more_rights() {
    if !is_root() {
        return;
    }
    let programs = Programs::new();
    let program = programs.compiled("raised", &[]);
    chown(&program, Some(rustix::fs::Uid::from_raw(NOBODY)), None).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    for way in WAYS {
        let line = format!("{program}; {program}; exit $?");
        let ended = end_of(way, &["sh", "-c", &line]);
        assert_eq!(ended.code, Some(5), "{ended:?}");
        let lines = ended.err.lines().filter(|line| line.contains(&program));
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() <= 2 && lines[0].contains("setuid"), "{way:?}: {ended:?}");
        // If the program redirects its standard error, the redirected output contains only the
        // program's own lines.
        let ended = end_of(way, &["sh", "-c", &format!("{program} 2>&1 | cat; exit 3")]);
        assert_eq!((ended.code, &*ended.out), (Some(3), ""), "{way:?}: {ended:?}");
    }
}

/// In Docker, root lacks the capability that raises a hard limit.
#[test]
fn hard_limits_rise_only_with_the_capability() {
    const RAISE: &str = "
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
try:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 41, 1 << 41))
    print('raised')
except ValueError:
    print('refused')";
    if !is_root() {
        return;
    }
    // The loop drops one capability in each round. The process can lack this capability from the
    // start.
    for lost in ["sys_resource", "sys_time"] {
        let begun = |way: &[&str]| {
            let mut command = Command::new("setpriv");
            command.arg(format!("--bounding-set=-{lost}")).args(way);
            end(command.args(["python3", "-c", RAISE]))
        };
        let natively = begun(&[]).out;
        assert!(lost != "sys_resource" || natively == "refused\n", "{natively}");
        for way in WAYS {
            let ended = begun(&[&[UZRAM, "run"], way].concat());
            assert_eq!(ended.out, natively, "{lost}, {way:?}: {ended:?}");
        }
    }
}

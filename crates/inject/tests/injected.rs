//! Tests that inject a small test host into programs.

#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, clippy::unwrap_used, reason = "tests")]

use inject::{Helper, Plan};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The source of a host that prints its own arguments and the program's arguments, and checks its
/// own memory.
const HOST: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
static char zeros[100000];
int main(int count, char **arguments, char **environment) {
    long *stack = (long *)atol(arguments[3]);
    for (unsigned at = 0; at < sizeof zeros; at++)
        if (zeros[at]) return 1;
    printf("%d %s %s %d %s %d %d\n", count, arguments[1], arguments[2], environment[0] != NULL,
        (char *)stack[2], (int)*stack, getauxval(AT_ENTRY) == 0);
    return 7;
}
"#;

struct Host(TempDir);

impl Host {
    fn compiled(flags: &[&str]) -> Self {
        let host = Host(tempfile::tempdir().unwrap());
        fs::write(host.0.path().join("host.c"), HOST).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["host.c", "-o", "host"]).args(flags).current_dir(host.0.path());
        assert!(gcc.status().unwrap().success());
        host
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("host")
    }
}

/// Starts a helper, calls `then`, and executes `echo`. Returns the output of `echo`.
fn executed(host: &Path, then: impl Fn() + Send + Sync + 'static) -> io::Result<Output> {
    let host = CString::new(host.as_os_str().as_bytes()).unwrap();
    // SAFETY: the call only reads the C library's copy of the auxiliary vector.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    let plan = Plan { host, settings: c"limit=1".to_owned(), vdso };
    let mut echo = Command::new("/bin/echo");
    let inject = move || {
        let helper = Helper::start(&plan, true);
        helper.ok_or(io::ErrorKind::Unsupported)?.into_word();
        then();
        Ok(())
    };
    // SAFETY: the closure starts the helper by system calls alone, and `then` only makes system
    // calls.
    unsafe { echo.arg("an argument").env("ONE", "1").pre_exec(inject) };
    echo.output()
}

#[test]
fn a_host_is_entered_in_place_of_the_program() {
    for flags in [&["-static-pie"][..], &["-pie"]] {
        let host = Host::compiled(flags);
        let output = executed(&host.path(), || ()).unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(shown, "9 limit=1 --injected 0 an argument 2 0\n", "{flags:?} {output:?}");
        assert_eq!(output.status.code(), Some(7));
    }
}

#[test]
fn files_that_are_no_hosts_are_refused() {
    let host = Host::compiled(&["-static-pie"]);
    let contents = fs::read(host.path()).unwrap();
    let not_movable = Host::compiled(&["-static", "-no-pie"]);
    fs::copy(not_movable.path(), host.0.path().join("other")).unwrap();
    let path = host.0.path().join("other");
    assert!(executed(&path, || ()).is_err());
    for bytes in [0, 1, 63, 64, 200, 500] {
        fs::write(&path, &contents[..bytes]).unwrap();
        assert!(executed(&path, || ()).is_err(), "{bytes}");
    }
    // Damages each word of the headers in turn. The host may be refused, or the child may be
    // killed.
    for at in (0..64 + 11 * 56).step_by(4) {
        for value in [u32::MAX, 0, 1 << 30] {
            let mut damaged = contents.clone();
            damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
            fs::write(&path, damaged).unwrap();
            let _refused_or_ended = executed(&path, || ());
        }
    }
    fs::remove_file(&path).unwrap();
    assert!(executed(&path, || ()).is_err());
}

#[test]
fn a_program_whose_host_has_changed_runs_without_it() {
    let removed: fn(&Path) = |path| fs::remove_file(path).unwrap();
    let replaced: fn(&Path) = |path| {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        fs::rename(&copy, path).unwrap();
    };
    for (change, error) in [(removed, libc::ENOENT), (replaced, libc::ESTALE)] {
        let host = Host::compiled(&["-static-pie"]);
        let path = host.path();
        let output = executed(&host.path(), move || change(&path)).unwrap();
        assert_eq!(output.stdout, b"an argument\n", "{output:?}");
        let line = String::from_utf8_lossy(&output.stderr);
        assert!(line.contains("runs without a limit"), "{line}");
        assert!(line.contains(&format!("error {error}")), "{line}");
        assert!(output.status.success());
    }
}

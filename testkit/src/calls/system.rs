//! System calls on the system as a whole, and on memory.

use super::files::file;
use super::trial::{Case, Need, Trial, me, must, raw};
use libc::*;

/// Moves the process to a namespace in which it can set the host name and the domain name. If the
/// move fails, leaves out the case.
fn own_names(trial: &mut Trial) {
    if raw(SYS_unshare, &[CLONE_NEWUTS as usize]) < 0 {
        trial.leave_out();
    }
}

fn page() -> usize {
    must(
        SYS_mmap,
        &[0, 4096, PROT_READ as usize, (MAP_PRIVATE | MAP_ANONYMOUS) as usize, usize::MAX],
    )
}

/// Returns the parameters of a kernel or a module.
fn said(trial: &mut Trial) -> usize {
    trial.place(b"a=b\0", Need::Maybe)
}

/// MPOL_BIND, with node 0.
const BIND: usize = 2;

pub const CASES: &[Case] = &[
    ("uname", |t| vec![t.output(390)]),
    ("sysinfo", |t| vec![t.output(112)]),
    ("syslog", |t| {
        let mut log = [0_u8; 64];
        let is_empty = raw(SYS_syslog, &[3, log.as_mut_ptr() as usize, 64]) <= 0;
        vec![3, t.room(64, if is_empty { Need::Maybe } else { Need::Part }), 64]
    }),
    ("getrandom", |t| vec![t.output(16), 16, 0]),
    ("sethostname", |t| {
        own_names(t);
        vec![t.input(b"abc"), 3]
    }),
    ("setdomainname", |t| {
        own_names(t);
        vec![t.input(b"abc"), 3]
    }),
    // The segment does not begin or end at a page boundary, so the call fails.
    ("kexec_load", |t| vec![0, 1, t.words(&[0, 0, 1, 1]), 0]),
    // The files are neither a kernel nor modules, so the kernel does not read the parameters.
    ("kexec_file_load", |t| vec![file(&[0; 64]), usize::MAX, 4, said(t), 0]),
    ("init_module", |t| vec![t.zeros(64), 64, said(t)]),
    ("finit_module", |t| vec![file(&[0; 64]), said(t), 0]),
    ("delete_module", |t| vec![t.text("no such module"), 0]),
    ("sysfs", |t| vec![1, t.text("proc")]),
    ("bpf", |t| {
        let path = t.place(b"/no such object\0", Need::Unknown);
        vec![7, t.words(&[path, 0]), 16]
    }),
    ("perf_event_open", |t| {
        // The kernel's software event that counts processor time (PERF_COUNT_SW_CPU_CLOCK).
        let mut attributes = [0; 16];
        (attributes[0], attributes[1]) = (1, 64);
        vec![t.ints(&attributes), 0, usize::MAX, usize::MAX, 0]
    }),
    ("mincore", |t| vec![page(), 4096, t.output(1)]),
    ("mincore two", |t| {
        let both = (MAP_PRIVATE | MAP_ANONYMOUS) as usize;
        let pages = must(SYS_mmap, &[0, 8192, PROT_READ as usize, both, usize::MAX]);
        vec![pages, 4097, t.output(2)]
    }),
    ("mbind", |t| vec![page(), 4096, BIND, t.words(&[1]), 2, 0]),
    ("set_mempolicy", |t| vec![BIND, t.words(&[1]), 2]),
    ("get_mempolicy", |t| vec![t.output(4), t.output(128), 1025, 0, 0]),
    ("migrate_pages", |t| vec![0, 65, t.words(&[1]), t.words(&[1])]),
    ("move_pages", |t| vec![0, 1, t.words(&[page()]), t.ints(&[0]), t.output(4), 0]),
    ("process_madvise", |t| {
        let this = must(SYS_pidfd_open, &[me(), 0]);
        vec![this, t.words(&[page(), 4096]), 1, MADV_COLD as usize, 0]
    }),
];

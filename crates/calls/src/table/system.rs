//! Rows of calls that concern the whole system: modules, host and domain names, random numbers, BPF
//! programs.

use crate::argument::Access::{Both, Read};
use crate::argument::Argument::{Plain, Pointee, Text};
use crate::argument::Pointee::Words;
use crate::argument::{inputs, output, outputs};
use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named::NamedSpec;
use crate::options::{REBOOT, SYSLOG};
use crate::sizes::{SYSINFO, UTSNAME};

/// A `bpf_attr`. The command of `bpf` determines which fields of the `bpf_attr` are addresses.
const BPF: crate::argument::Argument =
    Pointee(Words(Both, Length::Items { count: Int(2), bytes: 1, more: 0 }));
/// A `perf_event_attr`, whose size is stored in the 4 bytes at its offset 4.
const PERF: crate::argument::Argument =
    Pointee(Words(Both, Length::Own { at: 4, more: 0, least: 64, most: 4096 }));
/// The segments of a kernel that `kexec_load` loads.
const SEGMENTS: crate::argument::Argument =
    Pointee(Words(Read, Length::Items { count: Long(1), bytes: 32, more: 0 }));

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_uname, output(UTSNAME); brief, needed),
    row!(SYS_sysinfo, output(SYSINFO); brief, optional),
    row!(SYS_syslog, Plain, SYSLOG),
    row!(SYS_sethostname, inputs(Int(1), 1)),
    row!(SYS_setdomainname, inputs(Int(1), 1)),
    row!(SYS_getrandom, outputs(Long(1), 1); needed),
    row!(SYS_vhangup),
    row!(SYS_reboot, Plain, Plain, Plain, REBOOT),
    row!(SYS_kexec_load, Plain, Plain, SEGMENTS),
    row!(SYS_kexec_file_load, Plain, Plain, Plain, inputs(Long(2), 1)),
    row!(SYS_init_module, inputs(Long(1), 1), Plain, Text),
    row!(SYS_finit_module, Plain, Text),
    row!(SYS_delete_module, Text),
    row!(SYS_bpf, Plain, BPF),
    row!(SYS_perf_event_open, PERF),
    row!(SYS_nfsservctl),
];

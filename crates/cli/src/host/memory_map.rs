//! The kernel's record of a process's memory, which /proc shows: code, data, break, arguments.
//!
//! # Safety
//! The kernel checks all addresses, and only shows them.
#![allow(unsafe_code)]

use std::fs;
use std::ops::Range;

const PR_SET_MM_MAP: usize = 14;
const WORD: usize = size_of::<usize>();

/// `struct prctl_mm_map` of the kernel.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MemoryMap {
    code: [u64; 2],
    data: [u64; 2],
    /// Its start, and where it is now.
    heap: [u64; 2],
    stack: u64,
    arguments: [u64; 2],
    environment: [u64; 2],
    auxiliary: u64,
    auxiliary_bytes: u32,
    file: i32,
}

impl MemoryMap {
    /// Reads the kernel's record of this process. The runtime has not begun yet, so that the
    /// break is the kernel's.
    pub(crate) fn of_process() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field is a name in brackets, which may have any byte.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let field = |nth: usize| fields.get(nth - 3)?.trim().parse::<u64>().ok();
        // SAFETY: it only asks.
        let heap_end = unsafe { libc::sbrk(0) }.addr() as u64;
        Some(MemoryMap {
            code: [field(26)?, field(27)?],
            data: [field(45)?, field(46)?],
            heap: [field(47)?, heap_end],
            stack: field(28)?,
            arguments: [field(48)?, field(49)?],
            environment: [field(50)?, field(51)?],
            auxiliary: 0,
            auxiliary_bytes: 0,
            file: -1,
        })
    }

    /// Says to the kernel where the program has these.
    pub(crate) fn set(
        mut self,
        stack: usize,
        arguments: &Range<usize>,
        environment: &Range<usize>,
        auxiliary: &[usize],
    ) {
        let ends = |range: &Range<usize>| [range.start as u64, range.end as u64];
        self.stack = stack as u64;
        (self.arguments, self.environment) = (ends(arguments), ends(environment));
        self.auxiliary = auxiliary.as_ptr().addr() as u64;
        self.auxiliary_bytes = (auxiliary.len() * WORD) as u32;
        let (map, bytes) = (&raw const self, size_of::<Self>());
        // SAFETY: the kernel reads the structure and the vector. If it refuses, /proc shows what
        // the host has.
        unsafe { libc::prctl(libc::PR_SET_MM, PR_SET_MM_MAP, map, bytes, 0) };
    }
}

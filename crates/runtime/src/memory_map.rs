//! The addresses that the kernel stores for the parts of a process, such as code, heap and
//! arguments. /proc shows these addresses.

use crate::executed::contents;
use crate::kernel::{PR_SET_MM_MAP, WORD};
use dispatch::system;
use std::ops::Range;

/// The kernel's structure `prctl_mm_map`.
#[repr(C)]
#[derive(Debug)]
pub struct MemoryMap {
    code: [u64; 2],
    data: [u64; 2],
    /// The start of the heap, and the break.
    heap: [u64; 2],
    stack: u64,
    arguments: [u64; 2],
    environment: [u64; 2],
    auxiliary: u64,
    auxiliary_bytes: u32,
    file: i32,
}

impl MemoryMap {
    /// Reads the addresses that the kernel stores for this process.
    pub fn of_process() -> Option<Self> {
        let stat = String::from_utf8_lossy(&contents("/proc/self/stat")).into_owned();
        // The second field is a name in parentheses, which can contain any bytes.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let field = |nth: usize| fields.get(nth - 3)?.trim().parse::<u64>().ok();
        let heap_end = system(libc::SYS_brk, [0; 6]).ok()? as u64;
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

    /// Changes the break that the kernel stores, without mapping or unmapping memory.
    pub(crate) fn set_break(mut self, to: usize) {
        self.heap[1] = to as u64;
        self.write();
    }

    /// Changes the addresses that the kernel stores for the program's stack, arguments and
    /// environment, and the auxiliary vector.
    pub fn set(
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
        self.write();
    }

    /// Passes this structure and its auxiliary vector to the kernel, which can refuse them.
    fn write(&self) {
        let (map, bytes) = ((&raw const *self).addr(), size_of::<Self>());
        let args = [libc::PR_SET_MM as usize, PR_SET_MM_MAP, map, bytes, 0, 0];
        let _refused = system(libc::SYS_prctl, args);
    }
}

//! The options of a model's region, and the program's memory that a region can manage.

use super::wrong_codec::WrongCodec;
use super::*;
use std::ptr::{NonNull, null_mut};
use zmem::{Fork, Options};

/// All backends except `Best`, which selects the first or the second of them.
pub const BACKENDS: [BackendKind; 7] = [
    Signal,
    SignalMappings,
    SignalRemap,
    Userfaultfd,
    UserfaultfdSigbus,
    UserfaultfdProtected,
    UserfaultfdSigbusProtected,
];
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub backend: BackendKind,
    pub block: BlockOrder,
    pub codec: &'static str,
    pub bytes: usize,
    /// The number of bytes by which the initial limit exceeds the lowest possible limit.
    pub limit: Option<u64>,
    pub store_limit: Option<u64>,
    pub checksums: bool,
    /// Whether children have a copy of the region, regardless of the backend.
    pub is_copied: bool,
    /// Whether the region manages memory that the program used before.
    pub is_managed: bool,
    /// Whether the codec decompresses some blocks wrongly.
    pub has_fault: bool,
}

impl Setup {
    /// Returns a set-up with blocks of a page, lz4, no limit, and no option enabled.
    pub fn new(backend: BackendKind, bytes: usize) -> Self {
        Setup {
            backend,
            block: Fixed(0),
            codec: "lz4",
            bytes,
            limit: None,
            store_limit: None,
            checksums: false,
            is_copied: false,
            is_managed: false,
            has_fault: false,
        }
    }

    fn options(&self, limit: Option<u64>) -> Options {
        let codec = zcomp::by_name(self.codec).expect("there is such a codec");
        Options {
            backend: self.backend,
            block: self.block,
            codec: if self.has_fault { &WrongCodec } else { codec },
            limit,
            store_limit: self.store_limit,
            checksums: self.checksums,
            fork: if self.is_copied { Fork::Copied } else { Fork::Default },
            ..Options::default()
        }
    }

    pub fn is_signal(&self) -> bool {
        matches!(self.backend, Best | Signal | SignalMappings | SignalRemap)
    }

    /// Returns whether children have no copy of the region.
    pub(super) fn is_left_to_parent(&self) -> bool {
        !self.is_signal() && !self.is_copied
    }

    pub(super) fn region(
        &self,
        memory: Option<&Memory>,
        limit: Option<u64>,
    ) -> Result<Region, Error> {
        let options = self.options(limit);
        match memory {
            None => Region::new(self.bytes, options),
            // SAFETY: the memory is dropped after the region, and no other code uses it.
            Some(memory) => unsafe { Region::manage(memory.start, memory.bytes, options) },
        }
    }
}

/// Private memory of the program.
#[derive(Debug)]
pub struct Memory {
    pub start: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    /// Maps memory in which `bytes` bytes of whole blocks fit, and writes to some of its pages.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(PAGE) + (256 << 10);
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: this creates a private mapping at an address that the kernel chooses, so it
        // replaces no memory.
        let start = unsafe { libc::mmap(null_mut(), bytes, prot, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing there");
        let memory = Memory { start, bytes };
        for (nth, page) in Letters(1).bytes(bytes).chunks(PAGE).enumerate() {
            if nth % 7 != 3 {
                // SAFETY: the page lies within the memory, which no other code uses yet.
                unsafe { start.add(nth * PAGE).copy_from(NonNull::from(page).cast(), page.len()) };
            }
        }
        memory
    }

    pub fn contents(&self) -> &[u8] {
        // SAFETY: `new` mapped these bytes, and no code writes to them while the slice is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` created this mapping, and no code uses it any more.
        assert_eq!(unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) }, 0);
    }
}

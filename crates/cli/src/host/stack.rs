//! The initial stack of a program, and the jump to the program.
//!
//! ```text
//!   low | argc | argv ... 0 | envp ... 0 | auxiliary vector ... 0 0 | strings | high
//! ```
//! # Safety
//! The argument, environment and auxiliary vectors are those that the kernel passed to this
//! process. The process has only one thread, so the stack below its stack pointer is free.
#![allow(unsafe_code)]

use crate::image::{self, Image};
use crate::policy::{BELOW, STACK_BYTES};
use runtime::MemoryMap;
use std::arch::asm;
use std::ffi::{CStr, CString, OsString, c_char};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub(crate) const PAGE: usize = image::PAGE as usize;
const WORD: usize = size_of::<usize>();

/// A program's initial stack before it is written.
pub(crate) struct Stack {
    /// The address of `contents`.
    start: usize,
    contents: Vec<usize>,
    /// The addresses of the strings of the arguments and of the environment, and the indexes of the
    /// auxiliary vector in `contents`.
    arguments: Range<usize>,
    environment: Range<usize>,
    auxiliary: Range<usize>,
}

/// The strings of an environment, and the pairs of an auxiliary vector.
pub(crate) type Inherited = (Vec<&'static [u8]>, Vec<(usize, usize)>);

/// Reads the environment's strings, and the auxiliary vector that follows the environment.
pub(crate) fn inherited(environment: *const *const c_char) -> Inherited {
    // SAFETY: these are the kernel's vectors, which end with zeros.
    unsafe {
        let mut at = environment;
        let mut strings = Vec::new();
        while !(*at).is_null() {
            strings.push(CStr::from_ptr(*at).to_bytes());
            at = at.add(1);
        }
        // If the C library has removed variables, more than one zero ends the list.
        while (*at).is_null() {
            at = at.add(1);
        }
        let mut pair = at.cast::<(usize, usize)>();
        let mut auxiliary = Vec::new();
        while (*pair).0 != libc::AT_NULL as usize {
            auxiliary.push(*pair);
            pair = pair.add(1);
        }
        (strings, auxiliary)
    }
}

impl Stack {
    /// Builds the stack of a program that was executed as `path` with the arguments `list`.
    /// `environment` is the environment, followed by the auxiliary vector.
    pub(crate) fn new(
        path: &Path,
        list: &[OsString],
        environment: *const *const c_char,
        image: &Image,
        loader: Option<&Image>,
    ) -> Self {
        let (environment, auxiliary) = inherited(environment);
        let mut strings: Vec<u8> = Vec::new();
        let mut places = Vec::new();
        let all = list.iter().map(|argument| argument.as_bytes());
        let all = all.chain(environment.iter().copied());
        for bytes in all.chain([path.as_os_str().as_bytes()]) {
            places.push(strings.len());
            strings.extend([bytes, b"\0"].concat());
        }
        let count = list.len();
        let behind = count + environment.len();
        let words = 1 + count + 1 + environment.len() + 1 + 2 * (auxiliary.len() + 1);
        let total = words + strings.len().div_ceil(WORD);
        let here = 0_usize;
        let start = ((&raw const here).addr() - BELOW - total * WORD) & !15;
        let string = |nth: usize| start + words * WORD + places[nth];

        let mut contents = Vec::with_capacity(total);
        contents.push(count);
        contents.extend((0..count).map(string).chain([0]));
        contents.extend((count..behind).map(string).chain([0]));
        let vector = contents.len();
        for (kind, value) in auxiliary {
            let value = match kind as u64 {
                libc::AT_PHDR => image.headers.0,
                libc::AT_PHNUM => image.headers.1,
                libc::AT_ENTRY => image.entry,
                libc::AT_BASE => loader.map_or(0, |loader| loader.base),
                libc::AT_EXECFN => string(behind),
                _ => value,
            };
            contents.extend([kind, value]);
        }
        contents.extend([libc::AT_NULL as usize, 0]);
        let auxiliary = vector..contents.len();
        strings.resize(strings.len().next_multiple_of(WORD), 0);
        let (chunks, _) = strings.as_chunks::<WORD>();
        contents.extend(chunks.iter().map(|bytes| usize::from_ne_bytes(*bytes)));
        let (arguments, environment) = (string(0)..string(count), string(count)..string(behind));
        Stack { start, contents, arguments, environment, auxiliary }
    }

    /// Passes the addresses of the program's stack, arguments and environment, and the auxiliary
    /// vector, to the kernel, which shows them in /proc.
    pub(crate) fn describe(&self, memory: Option<MemoryMap>) {
        let Some(memory) = memory else { return };
        let auxiliary = &self.contents[self.auxiliary.clone()];
        memory.set(self.start, &self.arguments, &self.environment, auxiliary);
    }

    /// Makes the stack executable, for programs that request an executable stack.
    pub(crate) fn make_executable(&self) {
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC | libc::PROT_GROWSDOWN;
        let page = self as *const Self as usize & !(PAGE - 1);
        // SAFETY: the call only makes this stack executable. The system can refuse the call, as it
        // can without uzram.
        unsafe { libc::mprotect(page as *mut _, PAGE, prot) };
    }

    pub(crate) fn enter(self, entry: usize) -> ! {
        // SAFETY: the stack below `start` is free, and no data on this stack are used again.
        unsafe { enter(self.start, &self.contents, entry, &Release::Below) }
    }
}

/// The location of the host's stack, whose memory is released because the program does not use it.
pub(crate) enum Release {
    /// The host's stack lies below the program's stack, in the same mapping.
    Below,
    /// The host's stack is a mapping of its own, at these addresses.
    Mapping(Range<usize>),
}

/// Enters a program with `contents` at the start of its stack, and releases the memory of the
/// host's stack.
///
/// # Safety
/// `start` lies in the program's stack, and `entry` is the program's first instruction. No data on
/// this stack are used again.
pub(crate) unsafe fn enter(start: usize, contents: &[usize], entry: usize, release: &Release) -> ! {
    let (call, released) = match release {
        Release::Below => {
            let end = (start - WORD) & !(PAGE - 1);
            (libc::SYS_madvise, end - STACK_BYTES..end)
        }
        Release::Mapping(own) => (libc::SYS_munmap, own.clone()),
    };
    // SAFETY: the caller guarantees the conditions above. The system calls are dispatched, and
    // handled on other stacks. The first call releases memory of this stack. Nothing is mapped
    // below a stack (stack_guard_gap). The second call removes the thread pointer of this process's
    // C library.
    unsafe {
        asm!(
            "mov rsp, {start}",
            "rep movsq",
            "mov rdi, r13",
            "mov rsi, r14",
            "mov edx, {advice}",
            "syscall",
            "mov [rsp - 8], r12",
            "mov eax, 158",
            "mov edi, 0x1002",
            "xor esi, esi",
            "syscall",
            "xor eax, eax",
            "xor ebx, ebx",
            "xor ecx, ecx",
            "xor edx, edx",
            "xor esi, esi",
            "xor edi, edi",
            "xor ebp, ebp",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "xor r10d, r10d",
            "xor r11d, r11d",
            "xor r12d, r12d",
            "xor r13d, r13d",
            "xor r14d, r14d",
            "xor r15d, r15d",
            "xorps xmm0, xmm0",
            "xorps xmm1, xmm1",
            "xorps xmm2, xmm2",
            "xorps xmm3, xmm3",
            "xorps xmm4, xmm4",
            "xorps xmm5, xmm5",
            "xorps xmm6, xmm6",
            "xorps xmm7, xmm7",
            "jmp [rsp - 8]",
            start = in(reg) start,
            advice = const libc::MADV_DONTNEED,
            in("rax") call,
            in("r12") entry,
            in("r13") released.start,
            in("r14") released.len(),
            in("rsi") contents.as_ptr(),
            in("rdi") start,
            in("rcx") contents.len(),
            options(noreturn)
        )
    }
}

/// Names the process as the kernel names a process that executes `program`.
pub(crate) fn name_process(program: &Path) {
    let name = program.file_name().and_then(|name| CString::new(name.as_bytes()).ok());
    if let Some(name) = name {
        // SAFETY: `name` is a string that ends with a zero. The kernel copies its first 15 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

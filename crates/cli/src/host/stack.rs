//! The stack with which a program begins, and the jump to it.
//!
//! ```text
//!   low | argc | argv ... 0 | envp ... 0 | auxiliary vector ... 0 0 | strings of both | high
//! ```
//! # Safety
//! The vectors are those that the kernel passed to this process. The stack below its use is free,
//! as one thread runs.
#![allow(unsafe_code)]

use crate::image::Image;
use runtime::MemoryMap;
use std::arch::asm;
use std::ffi::{CStr, CString, OsString, c_char};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// More than calls take from where the stack is made to where the program is entered.
const BELOW: usize = 64 << 10;
/// More than a host uses of its stack.
const STACK_BYTES: usize = 256 << 10;
pub(crate) const PAGE: usize = 4096;
const WORD: usize = size_of::<usize>();

/// What a program is started with.
pub(crate) struct Arguments<'a> {
    /// The path that was executed.
    pub(crate) path: &'a Path,
    pub(crate) list: &'a [OsString],
    /// The environment, with the auxiliary vector behind.
    pub(crate) environment: *const *const c_char,
}

/// A stack as it will be.
pub(crate) struct Stack {
    /// Where its contents begin.
    start: usize,
    contents: Vec<usize>,
    /// The bytes of the arguments' strings, of the environment's, and of the auxiliary vector.
    arguments: Range<usize>,
    environment: Range<usize>,
    auxiliary: Range<usize>,
}

/// Strings of an environment, and pairs of an auxiliary vector.
pub(crate) type Inherited = (Vec<&'static [u8]>, Vec<(usize, usize)>);

/// Returns the environment's strings, and the auxiliary vector behind them.
pub(crate) fn inherited(environment: *const *const c_char) -> Inherited {
    // SAFETY: the kernel's vectors, which end with zeros.
    unsafe {
        let mut at = environment;
        let mut strings = Vec::new();
        while !(*at).is_null() {
            strings.push(CStr::from_ptr(*at).to_bytes());
            at = at.add(1);
        }
        // The C library may have taken variables out, and left more zeros than one.
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
    /// Makes the stack of a program.
    pub(crate) fn new(arguments: &Arguments<'_>, image: &Image, loader: Option<&Image>) -> Self {
        let (environment, auxiliary) = inherited(arguments.environment);
        let text = |bytes: &[u8]| [bytes, b"\0"].concat();
        let mut strings: Vec<u8> = Vec::new();
        let mut places = Vec::new();
        let all = arguments.list.iter().map(|argument| argument.as_bytes());
        let all = all.chain(environment.iter().copied());
        for bytes in all.chain([arguments.path.as_os_str().as_bytes()]) {
            places.push(strings.len());
            strings.extend(text(bytes));
        }
        let count = arguments.list.len();
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

    /// Tells the kernel where the arguments, the environment and the auxiliary vector are, so that
    /// /proc shows those of the program.
    pub(crate) fn describe(&self, memory: Option<MemoryMap>) {
        let Some(memory) = memory else { return };
        let auxiliary = &self.contents[self.auxiliary.clone()];
        memory.set(self.start, &self.arguments, &self.environment, auxiliary);
    }

    /// Lets the stack be executed, as programs ask for that have code there.
    pub(crate) fn make_executable(&self) {
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC | libc::PROT_GROWSDOWN;
        let page = self as *const Self as usize & !4095;
        // SAFETY: it only adds a right to this stack. The system may refuse, as it does natively.
        unsafe { libc::mprotect(page as *mut _, 4096, prot) };
    }

    /// Enters the program.
    pub(crate) fn enter(self, entry: usize) -> ! {
        // SAFETY: the stack below is free; nothing of this stack is used again.
        unsafe { enter(self.start, &self.contents, entry, &Release::Below) }
    }
}

/// The memory of this stack, which a program would hold otherwise.
pub(crate) enum Release {
    /// It lies below the program's stack, as a part of that.
    Below,
    /// It is a mapping.
    Mapping(Range<usize>),
}

/// Enters a program with `contents` at the start of its stack, and releases the memory of this one.
///
/// # Safety
/// The stack there is the program's, and `entry` its first instruction. Nothing of this stack is
/// used again.
pub(crate) unsafe fn enter(start: usize, contents: &[usize], entry: usize, release: &Release) -> ! {
    let (call, released) = match release {
        Release::Below => {
            let end = (start - WORD) & !(PAGE - 1);
            (libc::SYS_madvise, end - STACK_BYTES..end)
        }
        Release::Mapping(own) => (libc::SYS_munmap, own.clone()),
    };
    // SAFETY: as the caller says. The calls are dispatched, on stacks of their own. The first one
    // releases memory of this stack; nothing is mapped below a stack (stack_guard_gap). The second
    // one takes the thread pointer of this process's C library away.
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

/// Names the process as the kernel names it.
pub(crate) fn name_process(program: &Path) {
    let name = program.file_name().and_then(|name| CString::new(name.as_bytes()).ok());
    if let Some(name) = name {
        // SAFETY: a string; the kernel takes the first 15 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

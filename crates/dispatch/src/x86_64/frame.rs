//! The kernel's layout of a signal frame, and access to registers by their role in a system call.
//!
//! ```text
//!   high | the interrupted stack | 128: red zone | fpstate, aligned to 64: xsave, its second magic
//!        | Frame: restorer | flags, link, stack | registers, fpstate -> above | mask | info | low
//! ```
//! A frame begins 8 bytes above a multiple of 16, like the stack after a call instruction.

use super::info::Info;

/// The offset of two words in an fpstate: a magic number and the fpstate's length.
pub(crate) const FP_SIZE_AT: usize = 464;
const FP_MAGIC: u32 = 0x4650_5853;
const FP_LEGACY_BYTES: usize = 512;
/// The number of bytes below the stack pointer that a function is allowed to use (the red zone).
pub(crate) const RED_ZONE: usize = 128;
/// Flags that are cleared when a handler begins: direction, single step and resume.
const FLAGS_CLEARED: usize = 0x400 | 0x100 | 0x1_0000;
/// The masks of the flags that `lahf` stores, of the zero flag, and of the overflow flag.
const LOW: usize = 0xd5;
const ZERO: usize = 0x40;
const OVERFLOW: usize = 0x800;
/// The flag that the processor sets in the frame of a fault, so that a breakpoint at the
/// instruction is hit once.
const RESUME: usize = 1 << 16;
/// The length in bytes of an instruction that makes a system call.
pub(crate) const CALL_BYTES: usize = 2;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) start: usize,
    pub(crate) flags: i32,
    pub(crate) padding: u32,
    pub(crate) bytes: usize,
}

/// The flag of a signal stack that disables the stack while a handler runs on it.
pub(crate) const AUTODISARM: i32 = i32::MIN;
pub(crate) const NO_STACK: Stack =
    Stack { start: 0, flags: libc::SS_DISABLE, padding: 0, bytes: 0 };

impl Stack {
    pub(crate) fn is_on(&self) -> bool {
        self.bytes != 0
    }

    /// Returns whether code with this stack pointer runs on the signal stack.
    pub(crate) fn holds(&self, pointer: usize) -> bool {
        self.flags & AUTODISARM == 0
            && pointer.wrapping_sub(self.start).wrapping_sub(1) < self.bytes
    }

    pub(crate) fn end(&self) -> usize {
        self.start.wrapping_add(self.bytes)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    r8: usize,
    r9: usize,
    r10: usize,
    r11: usize,
    r12: usize,
    r13: usize,
    r14: usize,
    r15: usize,
    rdi: usize,
    rsi: usize,
    rbp: usize,
    rbx: usize,
    rdx: usize,
    rax: usize,
    rcx: usize,
    rsp: usize,
    rip: usize,
    flags: usize,
    segments: [u16; 4],
    err: usize,
    trap: usize,
    old_mask: usize,
    cr2: usize,
    pub(crate) fpstate: usize,
    reserved: [usize; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) flags: usize,
    pub(crate) link: usize,
    pub(crate) stack: Stack,
    pub(crate) registers: Registers,
    pub(crate) mask: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) restorer: usize,
    pub(crate) context: Context,
    pub(crate) info: Info,
}

const _: () = assert!(size_of::<Registers>() == 256 && size_of::<Context>() == 304);
const _: () = assert!(size_of::<Frame>() == 440);

/// Returns the size in bytes of an fpstate that contains these two words at [`FP_SIZE_AT`].
pub(crate) fn fp_bytes([magic, bytes]: [u32; 2]) -> usize {
    if magic == FP_MAGIC { bytes as usize } else { FP_LEGACY_BYTES }
}

/// Returns the addresses below `top` of a frame and of its fpstate, which has `fp_bytes` bytes.
pub(crate) fn places(top: usize, fp_bytes: usize) -> (usize, usize) {
    let fp = top.wrapping_sub(fp_bytes) & !63;
    ((fp.wrapping_sub(size_of::<Frame>()) & !15).wrapping_sub(8), fp)
}

impl Context {
    pub(crate) fn number(&self) -> usize {
        self.registers.rax
    }

    pub(crate) fn args(&self) -> [usize; 6] {
        let it = &self.registers;
        [it.rdi, it.rsi, it.rdx, it.r10, it.r8, it.r9]
    }

    pub(crate) fn set_result(&mut self, result: isize) {
        self.registers.rax = result as usize;
    }

    pub(crate) fn result(&self) -> isize {
        self.registers.rax as isize
    }

    /// Moves the context back to the call instruction. The program then makes the call again, with
    /// the number `number`.
    pub(crate) fn rewind(&mut self, number: usize) {
        self.registers.rip = self.registers.rip.wrapping_sub(CALL_BYTES);
        self.registers.rax = number;
    }

    /// Moves the context to `address`, as if a system call had returned there, and sets the
    /// registers that a call changes.
    pub(crate) fn return_to(&mut self, address: usize) {
        self.set_return(address);
        self.registers.r11 = self.registers.flags & !RESUME;
    }

    /// Moves the context to `address`, as if a system call had returned there. r11 must already
    /// contain the flags.
    pub(crate) fn set_return(&mut self, address: usize) {
        (self.registers.rip, self.registers.rcx) = (address, address);
    }

    /// Returns r11 and rcx, which every system call changes.
    pub(crate) fn scratch(&self) -> [usize; 2] {
        [self.registers.r11, self.registers.rcx]
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.registers.flags & ZERO != 0
    }

    /// Sets the flags that `lahf` stores, and the overflow flag.
    pub(crate) fn restore_flags(&mut self, low: u8, is_overflow: bool) {
        let overflow = if is_overflow { OVERFLOW } else { 0 };
        let others = self.registers.flags & !(LOW | OVERFLOW);
        self.registers.flags = others | usize::from(low) & LOW | overflow;
    }

    pub(crate) fn instruction(&self) -> usize {
        self.registers.rip
    }

    pub(crate) fn set_instruction(&mut self, address: usize) {
        self.registers.rip = address;
    }

    pub(crate) fn stack_pointer(&self) -> usize {
        self.registers.rsp
    }

    pub(crate) fn set_stack_pointer(&mut self, address: usize) {
        self.registers.rsp = address;
    }

    /// Returns the value of the register that holds the call's address during
    /// [`super::instructions::issue`].
    pub(crate) fn issue(&self) -> usize {
        self.registers.rbx
    }

    /// Returns the address of the frame from which `rt_sigreturn` returns.
    pub(crate) fn returned_frame(&self) -> usize {
        self.registers.rsp.wrapping_sub(size_of::<usize>())
    }

    /// Changes the context so that it begins `handler` with the frame at `frame`.
    pub(crate) fn enter(&mut self, handler: usize, signal: i32, frame: usize) {
        let it = &mut self.registers;
        (it.rip, it.rsp, it.rax) = (handler, frame, 0);
        it.rdi = signal as usize;
        it.rsi = frame + std::mem::offset_of!(Frame, info);
        it.rdx = frame + std::mem::offset_of!(Frame, context);
        it.flags &= !FLAGS_CLEARED;
        // Floating-point registers get the values that they have at the start of a program.
        it.fpstate = 0;
    }
}

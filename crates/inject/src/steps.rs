//! The steps between the `execve` of the process and the first instruction of the host.

use crate::entry::Entry;
use crate::host_file::HostFiles;
use crate::plan::Plan;
use crate::policy::{SCRATCH, VDSO_BYTES};
use crate::system::Errno;
use crate::tracee::{CODE_64, Registers, Tracee, trace};
use crate::{limits, maps, stack};
use stack::{Addresses, Auxiliary};

/// The machine code of the instruction `syscall`.
const CALL: [u8; 2] = [0x0f, 0x05];
const WORD: usize = size_of::<usize>();

/// The reason why the process does not enter a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The program gets more privileges than the process has, or is no 64-bit program for x86-64.
    Unfit,
    /// A system call failed.
    System(Errno),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Failure::System(errno)
    }
}

struct Mapped<'a> {
    files: &'a HostFiles,
    addresses: Addresses,
    /// The difference between addresses in memory and addresses in the file.
    base: usize,
}

/// Maps a host into a process that has just executed a program, and makes the process enter the
/// host. After an error, the process enters the program instead.
pub(crate) fn bring_in(
    tracee: &mut Tracee,
    files: &HostFiles,
    plan: &Plan,
    helper: usize,
) -> Result<(), Failure> {
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
    trace(libc::PTRACE_SETOPTIONS, tracee.process, 0, options as usize)?;
    let mask = tracee.mask()?;
    tracee.set_mask(u64::MAX)?;
    // The process stops when it leaves `execve`, after the kernel has written the result to the
    // registers.
    tracee.go_to_call()?;
    let program = tracee.registers()?;
    let entered = enter(tracee, files, plan, helper, &program);
    let registers = entered.as_ref().unwrap_or(&program);
    tracee.set_registers(registers)?;
    tracee.set_mask(mask)?;
    entered.map(drop)
}

/// Maps the host and returns the registers with which the process enters the host.
fn enter(
    tracee: &mut Tracee,
    files: &HostFiles,
    plan: &Plan,
    helper: usize,
    program: &Registers,
) -> Result<Registers, Failure> {
    if program.cs != CODE_64 {
        return Err(Failure::Unfit);
    }
    let stack = program.rsp as usize;
    let auxiliary = Auxiliary::read(tracee, stack)?;
    if auxiliary.get(libc::AT_SECURE).is_some_and(|secure| secure != 0) {
        return Err(Failure::Unfit);
    }
    let vdso = auxiliary.get(libc::AT_SYSINFO_EHDR).ok_or(libc::ENOSYS)?;
    tracee.call_at = find_call(tracee, vdso)? as u64;
    let limits = limits::lift(tracee.process);
    let instruction = program.rip as usize;
    let entry = Entry { stack, instruction, host_stack: 0, limits, helper };
    let entered = prepare(tracee, files, plan, entry, &auxiliary);
    let (pointer, first) = entered.inspect_err(|_| limits::restore(tracee.process, limits))?;
    let mut registers = *program;
    registers.rip = first as u64;
    registers.rsp = pointer as u64;
    Ok(registers)
}

/// Maps a host and writes its stack. Returns the host's stack pointer and the address of its first
/// instruction.
fn prepare(
    tracee: &Tracee,
    files: &HostFiles,
    plan: &Plan,
    entry: Entry,
    auxiliary: &Auxiliary,
) -> Result<(usize, usize), Errno> {
    let mapped = Mapped::map(tracee, files, plan, entry.stack - SCRATCH)?;
    let entry = Entry { host_stack: mapped.stack(), ..entry };
    let written = auxiliary.write(tracee, plan.settings.to_bytes(), entry, &mapped.addresses);
    let pointer = written.inspect_err(|_| mapped.unmap(tracee))?;
    Ok((pointer, mapped.first_instruction()))
}

impl<'a> Mapped<'a> {
    fn map(
        tracee: &Tracee,
        files: &'a HostFiles,
        plan: &Plan,
        scratch: usize,
    ) -> Result<Self, Errno> {
        let HostFiles { program, loader } = files;
        let base = maps::map(tracee, program, Entry::STACK_BYTES, &plan.host, scratch)?;
        let loader = match loader {
            Some(loader) => maps::map(tracee, &loader.elf, 0, loader.path(), scratch),
            None => Ok(0),
        };
        let unmap = || maps::unmap(tracee, program, Entry::STACK_BYTES, base);
        let loader = loader.inspect_err(|_| unmap())?;
        let headers = (base + program.headers.0, program.headers.1);
        let addresses = Addresses { entry: base + program.entry, headers, loader };
        Ok(Mapped { files, addresses, base })
    }

    fn unmap(&self, tracee: &Tracee) {
        maps::unmap(tracee, &self.files.program, Entry::STACK_BYTES, self.base);
        if let Some(loader) = &self.files.loader {
            maps::unmap(tracee, &loader.elf, 0, self.addresses.loader);
        }
    }

    /// Returns the lowest address of the host's stack, which lies directly above the host's
    /// segments.
    fn stack(&self) -> usize {
        self.base + self.files.program.end()
    }

    fn first_instruction(&self) -> usize {
        let Addresses { entry, loader: base, .. } = self.addresses;
        self.files.loader.as_ref().map_or(entry, |loader| base + loader.elf.entry)
    }
}

/// Returns the address of a `syscall` instruction in the vDSO.
pub(crate) fn find_call(tracee: &Tracee, vdso: usize) -> Result<usize, Errno> {
    let mut code = [0_u64; VDSO_BYTES / WORD];
    let bytes = tracee.read(vdso, &mut code)?;
    let code = object::pod::bytes_of_slice(&code);
    let found = code[..bytes].windows(CALL.len()).position(|pair| pair == CALL);
    found.map(|at| vdso + at).ok_or(libc::ENOSYS)
}

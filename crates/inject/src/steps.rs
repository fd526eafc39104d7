//! From a program's execution to the entry of a host.

use crate::entry::Entry;
use crate::host_file::HostFiles;
use crate::plan::Plan;
use crate::system::Errno;
use crate::tracee::{Registers, Tracee};
use crate::{maps, stack};
use stack::{Addresses, Auxiliary};

/// The code segment of 64-bit programs.
const CODE_64: u64 = 0x33;
/// The instruction `syscall`.
const CALL: [u8; 2] = [0x0f, 0x05];
/// Bytes of the vDSO in which an instruction is searched.
const VDSO_BYTES: usize = 4096;
/// Bytes between the program's stack and the path of the host's file, which the helper writes.
const SCRATCH: usize = 1024;
const WORD: usize = size_of::<usize>();

/// The reason why no host is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The program has rights of its own, or is not for 64-bit x86-64.
    Unfit,
    /// The system refused a call.
    System(Errno),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Failure::System(errno)
    }
}

/// Maps a host into a process that has executed a program, and makes the process enter it. After an
/// error the process enters the program.
pub(crate) fn bring_in(
    tracee: &mut Tracee,
    files: &HostFiles,
    plan: &Plan,
    helper: usize,
) -> Result<(), Failure> {
    let options = (libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL) as usize;
    crate::tracee::trace(libc::PTRACE_SETOPTIONS, tracee.process, 0, options)?;
    let mask = tracee.mask()?;
    tracee.set_mask(u64::MAX)?;
    // First the kernel writes the result of `execve` to the registers.
    tracee.step()?;
    let program = tracee.registers()?;
    let entered = enter(tracee, files, plan, helper, &program);
    let registers = entered.as_ref().unwrap_or(&program);
    tracee.set_registers(registers)?;
    tracee.set_mask(mask)?;
    entered.map(drop)
}

/// Returns the registers with which the process enters the host.
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
    let scratch = stack - SCRATCH;
    let base = maps::map(tracee, &files.program, &plan.host, scratch)?;
    let HostFiles { program: host, loader } = files;
    let host = Addresses {
        entry: base + host.entry,
        headers: (base + host.headers.0, host.headers.1),
        loader: match loader {
            Some(loader) => maps::map(tracee, &loader.elf, loader.path(), scratch)?,
            None => 0,
        },
    };
    let entry = Entry { stack, instruction: program.rip as usize, helper };
    let settings = plan.settings.to_bytes();
    let pointer = auxiliary.write(tracee, settings, entry, &host)?;
    let mut registers = *program;
    let first = loader.map_or(host.entry, |loader| host.loader + loader.elf.entry);
    registers.rip = first as u64;
    registers.rsp = pointer as u64;
    Ok(registers)
}

/// Returns the address of a `syscall` instruction in the vDSO.
fn find_call(tracee: &Tracee, vdso: usize) -> Result<usize, Errno> {
    let mut code = [0_u64; VDSO_BYTES / WORD];
    let bytes = tracee.read(vdso, &mut code)?;
    let code = object::pod::bytes_of_slice(&code);
    let found = code[..bytes].windows(CALL.len()).position(|pair| pair == CALL);
    found.map(|at| vdso + at).ok_or(libc::ENOSYS)
}

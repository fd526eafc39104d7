//! Evaluates seccomp filters as the kernel does. A filter is a classic BPF program that reads a
//! call's number, architecture, instruction address and arguments.
//!
//! ```text
//!   instruction, 8 bytes:  | code 16 | if true 8 | if false 8 | k 32 |
//!   data, words of 32 bits:  number | architecture | address, 2 | arguments, 2 each
//! ```

use crate::kernel::WORD;
use crate::user::words;
use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_DIV, BPF_IMM, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT,
    BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_LSH, BPF_MEM, BPF_MISC, BPF_MUL,
    BPF_NEG, BPF_OR, BPF_RET, BPF_RSH, BPF_ST, BPF_STX, BPF_SUB, BPF_TAX, BPF_TXA, BPF_W, BPF_X,
    BPF_XOR,
};

/// The maximum number of instructions in a filter.
const LENGTH_MAX: usize = libc::BPF_MAXINSNS as usize;
/// The number of words of scratch memory.
const SCRATCH: usize = 16;
/// AUDIT_ARCH_X86_64.
const ARCHITECTURE: u32 = 0xc000_003e;
const DATA_WORDS: usize = 16;
/// The offsets of fields in the data that a filter reads, and the size of these data, all in bytes.
const OF_ARCHITECTURE: u32 = 4;
const OF_ADDRESS: u32 = 8;
const OF_ARGUMENTS: u32 = 16;
const DATA_BYTES: u32 = 64;
/// The bits of a filter's result that select the action.
const ACTION: u32 = 0xffff_0000;

/// The effect of a filter on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The call is executed as if there were no filter.
    Allowed,
    /// The call fails with an error.
    Fails,
    /// The kernel kills the process, sends a signal, or lets a tracer or supervisor decide.
    Other,
}

/// The instructions of a filter.
#[derive(Debug)]
pub(crate) struct Filter(Vec<[u32; 4]>);

impl Filter {
    /// Reads the filter whose description (`sock_fprog`) is at `address` in the program's memory.
    pub(crate) fn read(address: usize) -> Option<Self> {
        let [length, start] = words(address)?;
        let length = usize::from(length as u16);
        let instruction = |nth: usize| {
            let [word] = words(start.checked_add(nth * WORD)?)?;
            let (low, k) = (word as u32, (word >> 32) as u32);
            Some([low & 0xffff, low >> 16 & 0xff, low >> 24, k])
        };
        let is_sound = (1..=LENGTH_MAX).contains(&length);
        is_sound.then(|| (0..length).map(instruction).collect::<Option<_>>()).flatten().map(Filter)
    }

    /// Returns the effect of the filter on a call, or `None` if the filter is invalid.
    pub(crate) fn answer(&self, number: i64, args: [usize; 6]) -> Option<Answer> {
        let mut data = [0; DATA_WORDS];
        (data[0], data[1]) = (number as u32, ARCHITECTURE);
        for (halves, word) in data[OF_ARGUMENTS as usize / 4..].chunks_mut(2).zip(args) {
            halves.copy_from_slice(&[word as u32, (word >> 32) as u32]);
        }
        Some(match self.result(&data)? & ACTION {
            libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG => Answer::Allowed,
            libc::SECCOMP_RET_ERRNO => Answer::Fails,
            _ => Answer::Other,
        })
    }

    /// Writes the filter and its description to `into`. Prepends instructions that allow the call
    /// with this number and first argument if the call is made at the address `at`. Returns the
    /// description's address.
    pub(crate) fn allowing(
        &self,
        (number, argument, at): (i64, u32, usize),
        into: &mut [usize],
    ) -> Option<usize> {
        let checked = [
            (OF_ARCHITECTURE, ARCHITECTURE),
            (OF_ADDRESS + 4, (at >> 32) as u32),
            (OF_ADDRESS, at as u32),
            (0, number as u32),
            (OF_ARGUMENTS, argument),
        ];
        let last = 2 * checked.len() as u32;
        let checks = checked.into_iter().enumerate().flat_map(|(nth, (offset, value))| {
            let to_end = last - 2 * nth as u32 - 1;
            [[BPF_LD | BPF_W | BPF_ABS, 0, 0, offset], [BPF_JMP | BPF_JEQ, 0, to_end, value]]
        });
        let allowed = [BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW];
        // The accumulator is set to 0, as the kernel guarantees at the start of a filter.
        let reset = [BPF_LD | BPF_IMM, 0, 0, 0];
        let all = checks.chain([allowed, reset]).chain(self.0.iter().copied());
        let (description, instructions) = into.split_at_mut_checked(2)?;
        let mut length = 0;
        for (word, [code, if_true, if_false, k]) in instructions.iter_mut().zip(all) {
            let low = code | if_true << 16 | if_false << 24;
            *word = low as usize | (k as usize) << 32;
            length += 1;
        }
        let is_whole = length == last as usize + 2 + self.0.len() && length <= LENGTH_MAX;
        description.copy_from_slice(&[length, instructions.as_ptr().addr()]);
        is_whole.then(|| description.as_ptr().addr())
    }

    fn result(&self, data: &[u32; DATA_WORDS]) -> Option<u32> {
        let (mut a, mut x, mut scratch, mut next) = (0_u32, 0_u32, [0; SCRATCH], 0);
        // Jumps only lead forwards, so each instruction is executed at most once.
        loop {
            let [code, if_true, if_false, k] = *self.0.get(next)?;
            next += 1;
            let operand = if code & BPF_X != 0 { x } else { k };
            let jump = |is_true: bool| (if is_true { if_true } else { if_false }) as usize;
            match (code & 7, code & 0xf0) {
                (BPF_LD, _) if code == BPF_LD | BPF_W | BPF_ABS => {
                    a = *data.get(k as usize / 4).filter(|_| k.is_multiple_of(4))?;
                }
                (class @ (BPF_LD | BPF_LDX), _) => {
                    let value = match code & !7 {
                        BPF_LEN => DATA_BYTES,
                        BPF_IMM => k,
                        BPF_MEM => *scratch.get(k as usize)?,
                        _ => return None,
                    };
                    *if class == BPF_LD { &mut a } else { &mut x } = value;
                }
                (BPF_ST, _) => *scratch.get_mut(k as usize)? = a,
                (BPF_STX, _) => *scratch.get_mut(k as usize)? = x,
                (BPF_ALU, operation) => {
                    a = match operation {
                        BPF_ADD => a.wrapping_add(operand),
                        BPF_SUB => a.wrapping_sub(operand),
                        BPF_MUL => a.wrapping_mul(operand),
                        // A division by zero ends the filter with the result 0.
                        BPF_DIV => match a.checked_div(operand) {
                            Some(quotient) => quotient,
                            None => return Some(0),
                        },
                        BPF_AND => a & operand,
                        BPF_OR => a | operand,
                        BPF_XOR => a ^ operand,
                        BPF_LSH => a.wrapping_shl(operand),
                        BPF_RSH => a.wrapping_shr(operand),
                        BPF_NEG => a.wrapping_neg(),
                        _ => return None,
                    }
                }
                (BPF_JMP, BPF_JA) => next = next.checked_add(k as usize)?,
                (BPF_JMP, BPF_JEQ) => next += jump(a == operand),
                (BPF_JMP, BPF_JGT) => next += jump(a > operand),
                (BPF_JMP, BPF_JGE) => next += jump(a >= operand),
                (BPF_JMP, BPF_JSET) => next += jump(a & operand != 0),
                (BPF_RET, _) if code & 0x18 == BPF_K => return Some(k),
                (BPF_RET, _) if code & 0x18 == BPF_A => return Some(a),
                (BPF_MISC, BPF_TAX) if code & 0xf8 == BPF_TAX => x = a,
                (BPF_MISC, _) if code & 0xf8 == BPF_TXA => a = x,
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dispatch::system;

    fn filter(instructions: &[(u32, u8, u8, u32)]) -> Filter {
        let list: Vec<libc::sock_filter> = instructions
            .iter()
            .map(|&(code, jt, jf, k)| libc::sock_filter { code: code as u16, jt, jf, k })
            .collect();
        let described =
            libc::sock_fprog { len: list.len() as u16, filter: list.as_ptr().cast_mut() };
        Filter::read((&raw const described).addr()).unwrap()
    }

    const LOAD: u32 = BPF_LD | BPF_W | BPF_ABS;
    const RETURN: u32 = BPF_RET | BPF_K;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    #[test]
    fn calls_are_allowed_by_number_and_arguments() {
        // This filter allows `read`, and `mmap` of memory that is not executable.
        let sound = filter(&[
            (LOAD, 0, 0, 0),
            (BPF_JMP | BPF_JEQ | BPF_K, 4, 0, libc::SYS_read as u32),
            (BPF_JMP | BPF_JEQ | BPF_K, 0, 2, libc::SYS_mmap as u32),
            (LOAD, 0, 0, 32),
            (BPF_JMP | BPF_JSET | BPF_K, 0, 1, libc::PROT_EXEC as u32),
            (RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | 1),
            (RETURN, 0, 0, ALLOW),
        ]);
        let args = |prot: i32| [0, 4096, prot as usize, 0, 0, 0];
        assert_eq!(sound.answer(libc::SYS_read, [0; 6]), Some(Answer::Allowed));
        assert_eq!(sound.answer(libc::SYS_write, [0; 6]), Some(Answer::Fails));
        assert_eq!(sound.answer(libc::SYS_mmap, args(libc::PROT_READ)), Some(Answer::Allowed));
        assert_eq!(sound.answer(libc::SYS_mmap, args(libc::PROT_EXEC)), Some(Answer::Fails));
    }

    #[test]
    fn one_call_is_allowed_at_one_address() {
        let refuses = filter(&[(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | 7)]);
        let at = 0x5555_0000_1234;
        let mut room = [0; 64];
        let address = refuses.allowing((libc::SYS_prctl, 59, at), &mut room).unwrap();
        let allowing = Filter::read(address).unwrap();
        let result = |number: i64, architecture: u32, at: usize, argument: u32| {
            let mut data = [0; DATA_WORDS];
            (data[0], data[1], data[4]) = (number as u32, architecture, argument);
            (data[2], data[3]) = (at as u32, (at >> 32) as u32);
            allowing.result(&data)
        };
        let refused = Some(libc::SECCOMP_RET_ERRNO | 7);
        assert_eq!(result(libc::SYS_prctl, ARCHITECTURE, at, 59), Some(ALLOW));
        assert_eq!(result(libc::SYS_prctl, ARCHITECTURE, at, 58), refused);
        assert_eq!(result(libc::SYS_prctl, ARCHITECTURE, at + 1, 59), refused);
        assert_eq!(result(libc::SYS_prctl, ARCHITECTURE, at + (1 << 32), 59), refused);
        assert_eq!(result(libc::SYS_prctl, 1, at, 59), refused);
        assert_eq!(result(libc::SYS_read, ARCHITECTURE, at, 59), refused);
        // The accumulator is 0 when the original instructions start.
        let of_register = filter(&[(BPF_RET | BPF_A, 0, 0, 0)]);
        let address = of_register.allowing((libc::SYS_prctl, 59, at), &mut room).unwrap();
        assert_eq!(Filter::read(address).unwrap().result(&[9; DATA_WORDS]), Some(0));
        // `allowing` fails if the buffer is too small or the filter is too long.
        assert_eq!(refuses.allowing((libc::SYS_prctl, 59, at), &mut room[..14]), None);
        let mut large = vec![0; LENGTH_MAX + 2];
        let sized = |length: usize| filter(&vec![(RETURN, 0, 0, ALLOW); length]);
        assert!(sized(LENGTH_MAX - 12).allowing((0, 0, at), &mut large).is_some());
        assert_eq!(sized(LENGTH_MAX - 11).allowing((0, 0, at), &mut large), None);
    }

    #[test]
    fn instructions_calculate_as_in_the_kernel() {
        let is = |instructions: &[(u32, u8, u8, u32)]| {
            filter(instructions).result(&std::array::from_fn(|nth| nth as u32 * 3))
        };
        let returned = (BPF_RET | BPF_A, 0, 0, 0);
        let (imm, imm_x) = (BPF_LD | BPF_IMM, BPF_LDX | BPF_IMM);
        for (operation, expected) in [
            (BPF_ADD, 3),
            (BPF_SUB, 7),
            (BPF_MUL, u32::MAX - 9),
            (BPF_DIV, 0),
            (BPF_AND, 4),
            (BPF_OR, (u32::MAX - 1) | 5),
            (BPF_XOR, (u32::MAX - 1) ^ 5),
        ] {
            let by_k = [(imm, 0, 0, 5), (BPF_ALU | operation | BPF_K, 0, 0, u32::MAX - 1)];
            let by_x = [
                (imm, 0, 0, 5),
                (imm_x, 0, 0, u32::MAX - 1),
                (BPF_ALU | operation | BPF_X, 0, 0, 0),
            ];
            assert_eq!(is(&[&by_k[..], &[returned]].concat()), Some(expected), "{operation:x}");
            assert_eq!(is(&[&by_x[..], &[returned]].concat()), Some(expected), "{operation:x}");
        }
        let shifted = |operation| is(&[(imm, 0, 0, 6), (BPF_ALU | operation, 0, 0, 1), returned]);
        assert_eq!((shifted(BPF_LSH), shifted(BPF_RSH)), (Some(12), Some(3)));
        assert_eq!(
            is(&[(imm, 0, 0, 6), (BPF_ALU | BPF_NEG, 0, 0, 0), returned]),
            Some(6_u32.wrapping_neg())
        );
        assert_eq!(is(&[(BPF_ALU | BPF_DIV, 0, 0, 0), (RETURN, 0, 0, 9)]), Some(0));
        // Moves a value through scratch memory and the index register.
        let moved = [
            (LOAD, 0, 0, 20),
            (BPF_ST, 0, 0, 15),
            (BPF_LDX | BPF_MEM, 0, 0, 15),
            (imm, 0, 0, 0),
            (BPF_MISC | BPF_TXA, 0, 0, 0),
            (BPF_MISC | BPF_TAX, 0, 0, 0),
            (BPF_STX, 0, 0, 0),
            (BPF_LD | BPF_MEM, 0, 0, 0),
            returned,
        ];
        assert_eq!(is(&moved), Some(15));
        assert_eq!(is(&[(BPF_LD | BPF_W | BPF_LEN, 0, 0, 0), returned]), Some(64));
        let skipped = [(BPF_JMP | BPF_JA, 0, 0, 1), (RETURN, 0, 0, 1), (RETURN, 0, 0, 2)];
        assert_eq!(is(&skipped), Some(2));
    }

    /// Generates a random filter that allows `exit_group`. Any other call fails with a 7-bit error
    /// number that depends on the call's data.
    fn drawn(rng: &mut fastrand::Rng) -> Vec<(u32, u8, u8, u32)> {
        let exit = libc::SYS_exit_group as u32;
        let mut list =
            vec![(LOAD, 0, 0, 0), (BPF_JMP | BPF_JEQ, 0, 1, exit), (RETURN, 0, 0, ALLOW)];
        list.extend(
            (0..SCRATCH as u32).flat_map(|nth| [(BPF_ST, 0, 0, nth), (BPF_STX, 0, 0, nth)]),
        );
        let count = rng.usize(1..60);
        for nth in 0..count {
            let k = if rng.bool() { rng.u32(..) } else { rng.u32(0..300) };
            let slot = rng.u32(0..SCRATCH as u32);
            let source = if rng.bool() { BPF_X } else { BPF_K };
            // A jump leads to a later instruction.
            let ahead = (count - nth) as u8;
            let [jt, jf] = [0; 2].map(|_: i32| rng.u8(0..ahead));
            let operation =
                *rng.choice(&[BPF_ADD, BPF_SUB, BPF_MUL, BPF_AND, BPF_OR, BPF_XOR]).unwrap();
            let condition = *rng.choice(&[BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET]).unwrap();
            let shift = *rng.choice(&[BPF_LSH, BPF_RSH]).unwrap();
            list.push(match rng.u32(0..14) {
                0 | 1 => (LOAD, 0, 0, 16 + 4 * rng.u32(0..12)),
                2 => (BPF_LD | BPF_IMM, 0, 0, k),
                3 => (BPF_LDX | BPF_IMM, 0, 0, k),
                4 => (*rng.choice(&[BPF_LD, BPF_LDX]).unwrap() | BPF_LEN, 0, 0, 0),
                5 => (*rng.choice(&[BPF_LD, BPF_LDX]).unwrap() | BPF_MEM, 0, 0, slot),
                6 => (*rng.choice(&[BPF_ST, BPF_STX]).unwrap(), 0, 0, slot),
                7 => (BPF_MISC | *rng.choice(&[BPF_TAX, BPF_TXA]).unwrap(), 0, 0, 0),
                8 => (BPF_ALU | BPF_NEG, 0, 0, 0),
                9 => (BPF_ALU | shift | BPF_K, 0, 0, k % 32),
                10 => (BPF_ALU | BPF_DIV | source, 0, 0, k.max(1)),
                11 | 12 => (BPF_JMP | condition | source, jt, jf, k),
                _ => (BPF_ALU | operation | source, 0, 0, k),
            });
        }
        let error = libc::SECCOMP_RET_ERRNO;
        list.extend([
            (BPF_ALU | BPF_AND, 0, 0, 0x7f),
            (BPF_ALU | BPF_OR, 0, 0, error),
            (BPF_RET | BPF_A, 0, 0, 0),
        ]);
        list
    }

    #[test]
    fn random_filters_have_the_results_of_the_kernel() {
        let mut rng = fastrand::Rng::with_seed(testkit::seed(11));
        let (mut failed, mut ended) = (0, 0);
        for round in 0..testkit::scaled(150, 3000) {
            let list = drawn(&mut rng);
            let args: [usize; 6] = std::array::from_fn(|_| rng.usize(..));
            let (filter, mut room) = (filter(&list), [0; 256]);
            let address = filter.allowing((0, 0, 0), &mut room).unwrap();
            let child = testkit::child::Child::fork(|| {
                let permit = [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0];
                let wanted = [libc::SECCOMP_SET_MODE_FILTER as usize, 0, address, 0, 0, 0];
                system(libc::SYS_prctl, permit).unwrap();
                system(libc::SYS_seccomp, wanted).unwrap();
                let answer = system(libc::SYS_getppid, args).map_or_else(|error| -error, |_| 0);
                let _ended = system(libc::SYS_exit_group, [answer as usize, 0, 0, 0, 0, 0]);
            });
            let status = child.status();
            let mut data = [0; DATA_WORDS];
            (data[0], data[1]) = (libc::SYS_getppid as u32, ARCHITECTURE);
            for (halves, word) in data[4..].chunks_mut(2).zip(args) {
                halves.copy_from_slice(&[word as u32, (word >> 32) as u32]);
            }
            let result = filter.result(&data).unwrap();
            match result {
                // The filter divided by zero, which kills the thread.
                0 => {
                    assert_eq!(libc::WTERMSIG(status), libc::SIGSYS, "{round}: {list:?}");
                    ended += 1;
                }
                _ => {
                    let code = libc::WEXITSTATUS(status) as u32;
                    assert_eq!(code, result & 0x7f, "{round}: {status:x} {args:x?} {list:?}");
                    failed += u32::from(code != 0);
                }
            }
        }
        assert!(failed > 50 && ended > 0, "{failed} {ended}");
    }

    #[test]
    fn unsound_filters_have_no_result() {
        for unsound in [
            (LOAD, 0, 0, 64),
            (LOAD, 0, 0, 2),
            (BPF_LD | BPF_MEM, 0, 0, 16),
            (BPF_ST, 0, 0, 16),
            (BPF_JMP | BPF_JA, 0, 0, u32::MAX),
            (BPF_JMP | BPF_JEQ, 200, 200, 0),
            (0xffff, 0, 0, 0),
        ] {
            assert_eq!(
                filter(&[unsound, (RETURN, 0, 0, ALLOW)]).answer(0, [0; 6]),
                None,
                "{unsound:?}"
            );
        }
        let empty = libc::sock_fprog { len: 0, filter: std::ptr::null_mut() };
        assert!(Filter::read((&raw const empty).addr()).is_none());
    }
}

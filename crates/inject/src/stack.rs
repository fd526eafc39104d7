//! Reads the stack that the kernel built for a program, and writes the stack of the program's host.
//!
//! ```text
//!   low | free | argc | argv 0 | envp 0 | auxiliary vector 0 0 | strings | high
//! ```
//! The host gets a copy of the program's auxiliary vector with the host's own addresses. The host
//! gets no environment, so no variable can affect the host's C library.

use crate::entry::Entry;
use crate::policy::{CHUNK, PAIRS, STACK_DATA_BYTES};
use crate::system::Errno;
use crate::tracee::Tracee;
use std::io::Cursor;

const WORD: usize = size_of::<usize>();

/// The addresses at which a host is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// The address of the host's first instruction.
    pub(crate) entry: usize,
    /// The address and the number of the host's program headers.
    pub(crate) headers: (usize, usize),
    /// The address of the host's loader, or 0 if the host has no loader.
    pub(crate) loader: usize,
}

/// The auxiliary vector of a program.
#[derive(Debug)]
pub(crate) struct Auxiliary {
    pairs: [[usize; 2]; PAIRS],
    count: usize,
}

impl Auxiliary {
    /// Reads the auxiliary vector of the program whose stack pointer is `stack`.
    pub(crate) fn read(tracee: &Tracee, stack: usize) -> Result<Self, Errno> {
        let mut words = Words { tracee, at: stack, chunk: [0; CHUNK], next: 0, count: 0 };
        let arguments = words.next()?;
        words.skip(arguments + 1);
        while words.next()? != 0 {}
        let mut found = Auxiliary { pairs: [[0; 2]; PAIRS], count: 0 };
        loop {
            let pair = [words.next()?, words.next()?];
            if pair[0] == libc::AT_NULL as usize {
                return Ok(found);
            }
            *found.pairs.get_mut(found.count).ok_or(libc::E2BIG)? = pair;
            found.count += 1;
        }
    }

    /// Returns the value of the pair whose kind is `kind`, or `None` if the vector has no such
    /// pair.
    pub(crate) fn get(&self, kind: u64) -> Option<usize> {
        let pair = self.pairs[..self.count].iter().find(|pair| pair[0] == kind as usize);
        pair.map(|pair| pair[1])
    }

    /// Writes the stack of a host to the traced process. Returns the host's stack pointer.
    pub(crate) fn write(
        &self,
        tracee: &Tracee,
        settings: &[u8],
        entry: Entry,
        host: &Addresses,
    ) -> Result<usize, Errno> {
        let words = 1 + Entry::ARGUMENTS + 1 + 1 + 2 * (self.count + 1);
        let mut bytes = [0; STACK_DATA_BYTES];
        let mut strings = Cursor::new(&mut bytes[words * WORD..]);
        entry.write(settings, &mut strings).map_err(|_| libc::E2BIG)?;
        let end = words * WORD + strings.position() as usize;
        let start = (entry.host_stack + Entry::STACK_BYTES - end) & !15;

        let mut nth = 0;
        let (vectors, strings) = bytes.split_at_mut(words * WORD);
        let mut put = |word: usize| {
            vectors[nth * WORD..][..WORD].copy_from_slice(&word.to_ne_bytes());
            nth += 1;
        };
        put(Entry::ARGUMENTS);
        let mut at = start + words * WORD;
        for string in strings.split(|byte| *byte == 0).take(Entry::ARGUMENTS) {
            put(at);
            at += string.len() + 1;
        }
        put(0);
        put(0);
        for [kind, value] in &self.pairs[..self.count] {
            put(*kind);
            put(match *kind as u64 {
                libc::AT_PHDR => host.headers.0,
                libc::AT_PHNUM => host.headers.1,
                libc::AT_ENTRY => host.entry,
                libc::AT_BASE => host.loader,
                _ => *value,
            });
        }
        tracee.write(start, &bytes[..end])?;
        Ok(start)
    }
}

/// An iterator over consecutive words in the memory of the traced process.
struct Words<'a> {
    tracee: &'a Tracee,
    /// The address of the next word to read from the process.
    at: usize,
    chunk: [u64; CHUNK],
    next: usize,
    count: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Result<usize, Errno> {
        if self.next == self.count {
            self.count = self.tracee.read(self.at, &mut self.chunk)? / WORD;
            self.at += self.count * WORD;
            self.next = 0;
        }
        let word = self.chunk.get(self.next).filter(|_| self.count > 0).ok_or(libc::EFAULT)?;
        self.next += 1;
        Ok(*word as usize)
    }

    fn skip(&mut self, words: usize) {
        let within = words.min(self.count - self.next);
        self.next += within;
        self.at += (words - within) * WORD;
    }
}

//! Prepares a system call, with inaccessible pages around the memory of its arguments.

pub use super::kernel::{done, me, must, raw};
use std::ops::Range;
use std::ptr;

pub const PAGE: usize = 4096;
/// The value of the bytes before an object.
pub const FILLER: u8 = 0x5a;
pub const EFAULT: i64 = -(libc::EFAULT as i64);

/// The part of an object that the kernel needs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i64)]
pub enum Need {
    /// The kernel needs every byte. If the last byte is inaccessible, the result changes.
    All,
    /// The kernel needs some bytes. If the whole object is inaccessible, the result changes.
    Part,
    /// The kernel accesses the object only in certain states of the system, so its access is not
    /// checked.
    Maybe,
    /// The table of system calls defines the start of the object, but not its end.
    Unknown,
}

/// The part of a trial that is spoiled: the memory of an object, or registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spoil {
    Nothing,
    /// The whole object is inaccessible.
    Closed(usize),
    /// The last byte of the object is inaccessible.
    Short(usize),
    /// Changes the registers that are not arguments of the call.
    Rest,
}

/// A case: its name, and the function that creates the arguments. The name begins with the name of
/// the system call.
pub type Case = (&'static str, fn(&mut Trial) -> Vec<usize>);

/// An object in memory to which an argument of a call refers.
pub struct Object {
    pub range: Range<usize>,
    /// The pages of the object.
    pub pages: Range<usize>,
    pub need: Need,
}

/// A call in preparation.
pub struct Trial {
    spoil: Spoil,
    pub objects: Vec<Object>,
    after: Vec<Box<dyn FnOnce()>>,
    is_left_out: bool,
}

impl Trial {
    /// Prepares a case. Returns the trial with the arguments of its call, or `None` if the call
    /// can't be tried.
    pub fn prepare(case: &Case, spoil: Spoil) -> Option<(Self, Vec<usize>)> {
        let mut trial = Trial { spoil, objects: Vec::new(), after: Vec::new(), is_left_out: false };
        let given = (case.1)(&mut trial);
        (!trial.is_left_out).then_some((trial, given))
    }

    /// Runs the registered cleanup. The call must have returned.
    pub fn end(&mut self) {
        self.after.drain(..).for_each(|work| work());
    }

    /// Places an object with the contents `bytes` directly before an inaccessible page. Returns the
    /// object's address.
    pub fn place(&mut self, bytes: &[u8], need: Need) -> usize {
        let nth = self.objects.len();
        let inner = (bytes.len() + 1).next_multiple_of(PAGE);
        // SAFETY: this creates a private mapping at an address that the kernel chooses, so it
        // replaces no memory.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), inner + 2 * PAGE, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        let pages = map as usize + PAGE..map as usize + PAGE + inner;
        protect(&pages, libc::PROT_READ | libc::PROT_WRITE);
        let beyond = usize::from(self.spoil == Spoil::Short(nth));
        let start = pages.end - bytes.len() + beyond;
        // SAFETY: the pages were made accessible above, and the copied bytes end at the end of the
        // pages.
        unsafe {
            ptr::write_bytes(pages.start as *mut u8, FILLER, inner);
            ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len() - beyond);
        }
        if self.spoil == Spoil::Closed(nth) {
            protect(&pages, libc::PROT_NONE);
        }
        self.objects.push(Object { range: start..start + bytes.len(), pages, need });
        start
    }

    /// Places an object that the kernel reads completely.
    pub fn input(&mut self, bytes: &[u8]) -> usize {
        self.place(bytes, Need::All)
    }

    /// Places an object that the kernel writes completely.
    pub fn output(&mut self, bytes: usize) -> usize {
        self.place(&vec![0xa5; bytes], Need::All)
    }

    /// Places an object that the kernel may write, in part or completely.
    pub fn room(&mut self, bytes: usize, need: Need) -> usize {
        self.place(&vec![0; bytes], need)
    }

    /// Places a string with its NUL.
    pub fn text(&mut self, text: &str) -> usize {
        self.input(&[text.as_bytes(), &[0]].concat())
    }

    /// Places a structure of words directly before an inaccessible page.
    pub fn words(&mut self, words: &[usize]) -> usize {
        self.input(&bytes_of(words))
    }

    /// Places a structure of 4-byte numbers directly before an inaccessible page.
    pub fn ints(&mut self, ints: &[i32]) -> usize {
        let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_ne_bytes()).collect();
        self.input(&bytes)
    }

    /// Places zeros that the kernel reads completely.
    pub fn zeros(&mut self, bytes: usize) -> usize {
        self.input(&vec![0; bytes])
    }

    /// Registers `work`, which runs after the call has returned.
    pub fn after(&mut self, work: impl FnOnce() + 'static) {
        self.after.push(Box::new(work));
    }

    /// Marks the call as one that can't be tried on this system.
    pub fn leave_out(&mut self) -> Vec<usize> {
        self.is_left_out = true;
        Vec::new()
    }
}

/// Returns the words as bytes in memory order.
pub fn bytes_of(words: &[usize]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub fn protect(pages: &Range<usize>, protection: i32) {
    let bytes = pages.end - pages.start;
    // SAFETY: the pages belong to a trial's own mapping, and no Rust reference points to them.
    let answer = unsafe { libc::mprotect(pages.start as *mut _, bytes, protection) };
    assert_eq!(answer, 0);
}

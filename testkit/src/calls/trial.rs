//! One system call that is prepared, with its memory fenced in.

pub use super::kernel::{done, me, must, raw};
use std::ops::Range;
use std::ptr;

pub const PAGE: usize = 4096;
/// What lies before an object.
pub const FILLER: u8 = 0x5a;
pub const EFAULT: i64 = -(libc::EFAULT as i64);

/// How much of an object the kernel needs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i64)]
pub enum Need {
    /// Every byte: one that is missing at its end changes the answer.
    All,
    /// Some of it: if there is none of it, the answer changes.
    Part,
    /// The row names it for other states of the world: nothing is asked of it.
    Maybe,
    /// The row says where it begins, and not how far it goes.
    Unknown,
}

/// What is amiss with an object's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spoil {
    Nothing,
    /// All of the object lies where nobody may touch it.
    Closed(usize),
    /// Its last byte does.
    Short(usize),
    /// What arguments name that are none of the call's.
    Rest,
}

/// A call: a row's name, and more words to tell it from others; and what makes its arguments.
pub type Case = (&'static str, fn(&mut Trial) -> Vec<usize>);

/// What a call names, in memory.
pub struct Object {
    pub range: Range<usize>,
    /// Its pages.
    pub pages: Range<usize>,
    pub need: Need,
}

/// A call that is being prepared.
pub struct Trial {
    spoil: Spoil,
    pub objects: Vec<Object>,
    after: Vec<Box<dyn FnOnce()>>,
    is_left_out: bool,
}

impl Trial {
    /// Prepares a case. Returns it with the arguments that its call has; None where it can't be
    /// tried.
    pub fn prepare(case: &Case, spoil: Spoil) -> Option<(Self, Vec<usize>)> {
        let mut trial = Trial { spoil, objects: Vec::new(), after: Vec::new(), is_left_out: false };
        let given = (case.1)(&mut trial);
        (!trial.is_left_out).then_some((trial, given))
    }

    /// Does what is to be done when the call has returned.
    pub fn end(&mut self) {
        self.after.drain(..).for_each(|work| work());
    }

    /// An object of these bytes, right before a page that nobody may touch.
    pub fn place(&mut self, bytes: &[u8], need: Need) -> usize {
        let nth = self.objects.len();
        let inner = (bytes.len() + 1).next_multiple_of(PAGE);
        // SAFETY: a new private mapping, placed by the system.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), inner + 2 * PAGE, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        let pages = map as usize + PAGE..map as usize + PAGE + inner;
        protect(&pages, libc::PROT_READ | libc::PROT_WRITE);
        let beyond = usize::from(self.spoil == Spoil::Short(nth));
        let start = pages.end - bytes.len() + beyond;
        // SAFETY: the pages were opened above; what is copied ends where they end.
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

    /// What the kernel reads all of.
    pub fn input(&mut self, bytes: &[u8]) -> usize {
        self.place(bytes, Need::All)
    }

    /// What the kernel writes all of.
    pub fn output(&mut self, bytes: usize) -> usize {
        self.place(&vec![0xa5; bytes], Need::All)
    }

    /// What the kernel may write, in part or all of it.
    pub fn room(&mut self, bytes: usize, need: Need) -> usize {
        self.place(&vec![0; bytes], need)
    }

    /// A string, with its NUL.
    pub fn text(&mut self, text: &str) -> usize {
        self.input(&[text.as_bytes(), &[0]].concat())
    }

    /// A structure of words.
    pub fn words(&mut self, words: &[usize]) -> usize {
        self.input(&bytes_of(words))
    }

    /// A structure of 4-byte numbers.
    pub fn ints(&mut self, ints: &[i32]) -> usize {
        let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_ne_bytes()).collect();
        self.input(&bytes)
    }

    /// Zeros that the kernel reads all of.
    pub fn zeros(&mut self, bytes: usize) -> usize {
        self.input(&vec![0; bytes])
    }

    /// Does this when the call has returned.
    pub fn after(&mut self, work: impl FnOnce() + 'static) {
        self.after.push(Box::new(work));
    }

    /// The call can't be tried here.
    pub fn leave_out(&mut self) -> Vec<usize> {
        self.is_left_out = true;
        Vec::new()
    }
}

/// The words as they lie in memory.
pub fn bytes_of(words: &[usize]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub fn protect(pages: &Range<usize>, protection: i32) {
    let bytes = pages.end - pages.start;
    // SAFETY: the pages are of a trial's own mapping.
    let answer = unsafe { libc::mprotect(pages.start as *mut _, bytes, protection) };
    assert_eq!(answer, 0);
}

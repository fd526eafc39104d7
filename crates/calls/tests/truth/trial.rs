//! One system call that is prepared, with its memory fenced in.

pub use crate::kernel::{done, me, must, raw};
use calls::{Access, Memory, Row, ranges};
use std::cell::RefCell;
use std::ops::Range;
use std::ptr;

pub const PAGE: usize = 4096;
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

struct Object {
    range: Range<usize>,
    /// Its pages.
    pages: Range<usize>,
    need: Need,
}

/// A call that is being prepared.
pub struct Trial {
    spoil: Spoil,
    objects: Vec<Object>,
    after: Vec<Box<dyn FnOnce()>>,
    is_left_out: bool,
}

impl Trial {
    /// Prepares a case and issues its call. Returns the answer, and what the objects need; None
    /// where it can't be tried.
    pub fn run(case: &Case, row: &Row, spoil: Spoil) -> Option<(i64, Vec<Need>)> {
        let mut trial = Trial { spoil, objects: Vec::new(), after: Vec::new(), is_left_out: false };
        let given = (case.1)(&mut trial);
        let mut arguments = std::array::from_fn(|nth| given.get(nth).copied().unwrap_or_default());
        if trial.is_left_out {
            return None;
        }
        match spoil {
            Spoil::Nothing => trial.compare(row, &arguments),
            Spoil::Rest => trial.fill(row, &mut arguments, given.len()),
            Spoil::Closed(_) | Spoil::Short(_) => {}
        }
        let value = raw(row.number as i64, &arguments);
        trial.after.into_iter().for_each(|work| work());
        Some((value, trial.objects.into_iter().map(|object| object.need).collect()))
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

    /// What the row tells of the arguments.
    fn told(&self, row: &Row, arguments: &[usize; 6]) -> Vec<(Range<usize>, Access)> {
        let told = RefCell::new(Vec::new());
        let memory = Told { told: &told, objects: &self.objects };
        ranges(row.number, *arguments, &memory, &mut |range, access| {
            told.borrow_mut().push((range, access));
        });
        told.into_inner()
    }

    /// Gives arguments that the case doesn't name, and the row says nothing of, an address where
    /// nobody may touch anything.
    fn fill(&self, row: &Row, arguments: &mut [usize; 6], given: usize) {
        let closed = must(
            libc::SYS_mmap,
            &[0, PAGE, 0, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize, usize::MAX],
        );
        for nth in given..arguments.len() {
            arguments[nth] = closed;
            if self.told(row, arguments).iter().any(|(range, _)| range.start == closed) {
                arguments[nth] = 0;
            }
        }
    }

    /// That what the row tells is what the objects are; what is only read is closed for writing.
    fn compare(&mut self, row: &Row, arguments: &[usize; 6]) {
        let told = self.told(row, arguments);
        let named: Vec<_> = self.objects.iter().map(|object| &object.range).collect();
        // A number may look like an address: that is what such a range says.
        for (range, _) in told.iter().filter(|(_, access)| *access != Access::Unknown) {
            let is_inside =
                |object: &&&Range<usize>| object.start <= range.start && range.end <= object.end;
            assert!(
                named.iter().any(|object| is_inside(&object)),
                "{range:#x?} is told, objects are {named:#x?}"
            );
        }
        for object in &self.objects {
            let inside: Vec<_> =
                told.iter().filter(|(range, _)| object.range.contains(&range.start)).collect();
            if object.need == Need::Unknown {
                let begins = |(range, access): &&(Range<usize>, Access)| {
                    range.start == object.range.start && *access == Access::Unknown
                };
                assert!(inside.iter().any(begins), "{:#x?}", object.range);
                continue;
            }
            let mut end = object.range.start;
            while let Some((next, _)) = inside.iter().find(|(range, _)| range.contains(&end)) {
                end = next.end;
            }
            assert_eq!(end, object.range.end, "of {:#x?} less is told", object.range);
            let written = inside.iter().any(|(_, access)| *access != Access::Read);
            if !written {
                protect(&object.pages, libc::PROT_READ);
            }
        }
    }
}

/// The words as they lie in memory.
pub fn bytes_of(words: &[usize]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn protect(pages: &Range<usize>, protection: i32) {
    let bytes = pages.end - pages.start;
    // SAFETY: the pages are of a trial's own mapping.
    let answer = unsafe { libc::mprotect(pages.start as *mut _, bytes, protection) };
    assert_eq!(answer, 0);
}

/// The trial's memory, of which only what was told may be read.
struct Told<'t> {
    told: &'t RefCell<Vec<(Range<usize>, Access)>>,
    objects: &'t [Object],
}

impl Memory for Told<'_> {
    fn read(&self, address: usize, into: &mut [u8]) -> bool {
        let end = address + into.len();
        let has = |range: &Range<usize>| range.start <= address && end <= range.end;
        let is_told = self.told.borrow().iter().any(|(range, _)| has(range));
        assert!(is_told, "{address:#x} is read and was not told");
        assert!(self.objects.iter().any(|object| has(&object.range)), "{address:#x}: whose is it?");
        // SAFETY: the bytes lie in an object, as asserted above, and the plain trial closes none.
        unsafe { ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }
}

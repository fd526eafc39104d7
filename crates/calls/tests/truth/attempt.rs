//! Runs a case in a child process and returns the result.

use crate::reported;
use calls::SyscallSpec;
use std::ptr;
use testkit::calls::trial::{Case, Need, PAGE, Spoil};
use testkit::child::Child;

const NEEDS: [Need; 4] = [Need::All, Need::Part, Need::Maybe, Need::Unknown];

/// The result of a child: whether the child left out the case, the value that the system call
/// returned, and the accesses that each object needs.
#[derive(Debug)]
pub struct Answer {
    pub is_left_out: bool,
    pub value: i64,
    pub needs: Vec<Need>,
}

/// The number of words in the page to which a child writes its result.
const ANSWER_WORDS: usize = PAGE / 8;

/// Runs a case in a child process.
///
/// # Errors
/// Returns the child's exit status as the error if the child failed.
pub fn attempt(case: &Case, row: &SyscallSpec, spoil: Spoil) -> Result<Answer, i32> {
    // SAFETY: the call replaces no mapping, and only this process and the child use the new
    // mapping.
    let shared = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(ptr::null_mut(), PAGE, both, flags, -1, 0)
    };
    assert_ne!(shared, libc::MAP_FAILED);
    let write = |words: &[i64]| {
        assert!(words.len() <= ANSWER_WORDS);
        // SAFETY: the words fit into the page, and the parent reads the page only after the child
        // has ended.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr(), shared.cast(), words.len()) };
    };
    let status = Child::fork(|| {
        let Some((value, needs)) = reported::run(case, row, spoil) else { return write(&[1]) };
        let head = [0, value, needs.len() as i64];
        let needs = needs.into_iter().map(|need| need as i64);
        write(&head.into_iter().chain(needs).collect::<Vec<_>>());
    })
    .status();
    // SAFETY: the child has ended, and the page consists of words.
    let words: Vec<i64> =
        unsafe { std::slice::from_raw_parts(shared.cast::<i64>(), ANSWER_WORDS) }.to_vec();
    // SAFETY: the page was mapped above, and no reference to it remains.
    unsafe { libc::munmap(shared, PAGE) };
    if status != 0 {
        return Err(status);
    }
    let needs = words[3..3 + words[2] as usize].iter().map(|need| NEEDS[*need as usize]).collect();
    Ok(Answer { is_left_out: words[0] == 1, value: words[1], needs })
}

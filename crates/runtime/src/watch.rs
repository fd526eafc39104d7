//! The debuggers that are attached to this process, as shown by /proc.

use crate::executed::contents;
use crate::kernel::ENOENT;
use crate::policy::LOOK_TIME;
use crate::threads::is_own;
use dispatch::system;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zmem::milliseconds;

/// A bit in the word that identifies a debugger. With this bit, the word contains the debugger's
/// process ID and the descriptor of an open file. Without this bit, the word is the ID of a traced
/// thread.
const FILE: u64 = 1 << 63;
const DESCRIPTOR_BITS: u32 = 31;

#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The word of the debugger that made a request which was deferred, or 0.
    pub(crate) asked: AtomicU64,
    /// The word of the thread that was traced last, and the word of the file that was opened last.
    words: [AtomicU64; 2],
    /// The time of the next check, in milliseconds.
    pub(crate) next: AtomicU64,
}

/// Returns the ID of a thread's process, and the ID of the process that traces the thread. The
/// second ID is 0 if the thread is not traced.
pub(crate) fn traced(thread: u64) -> Option<(usize, usize)> {
    let text = contents(&format!("/proc/{thread}/status"));
    let text = String::from_utf8_lossy(&text);
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    Some((field("Tgid:")?, field("TracerPid:")?))
}

/// Returns true if a thread belongs to this process.
pub(crate) fn is_of_own(thread: u64) -> bool {
    traced(thread).is_some_and(|(process, _)| is_own(process))
}

/// Returns the thread's ID in a path of the form /proc/PID/mem or /proc/PID/task/TID/mem.
pub(crate) fn thread_of(path: &[u8]) -> Option<u64> {
    let name = str::from_utf8(path).ok()?.strip_prefix("/proc/")?.strip_suffix("/mem")?;
    let (process, thread) = name.split_once("/task/").unwrap_or((name, name));
    process.parse::<u64>().ok()?;
    thread.parse().ok()
}

/// Returns the path to which a descriptor of a process refers.
pub(crate) fn link(process: u64, descriptor: u64) -> Result<Vec<u8>, isize> {
    let name = format!("/proc/{process}/fd/{descriptor}\0");
    let mut path = vec![0; 64];
    let args = [name.as_ptr().addr(), path.as_mut_ptr().addr(), path.len(), 0, 0, 0];
    path.truncate(system(libc::SYS_readlink, args)?);
    Ok(path)
}

/// Returns whether the debugger that a word identifies is still attached to this process.
fn is_there(word: u64) -> bool {
    if word & FILE == 0 {
        return traced(word).is_some_and(|(_, tracer)| tracer != 0);
    }
    let (process, descriptor) =
        ((word & !FILE) >> DESCRIPTOR_BITS, word & !(!0 << DESCRIPTOR_BITS));
    match link(process, descriptor) {
        Ok(path) => thread_of(&path).is_some_and(is_of_own),
        // If the process belongs to another user, its descriptors can't be read, and the debugger
        // is assumed to be attached.
        Err(failed) => failed != ENOENT,
    }
}

/// Returns the word that identifies an open file of a process.
pub(crate) fn of_file(process: u64, descriptor: u64) -> u64 {
    FILE | process << DESCRIPTOR_BITS | descriptor
}

impl Watch {
    /// Stores the word of a debugger.
    pub(crate) fn note(&self, word: u64) {
        self.words[usize::from(word & FILE != 0)].store(word, Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.words.iter().chain([&self.asked]).for_each(|word| word.store(0, Relaxed));
    }

    /// Returns the word of one of the debuggers, if any is attached.
    pub(crate) fn any(&self) -> Option<u64> {
        self.words.iter().map(|word| word.load(Relaxed)).find(|word| *word != 0)
    }

    fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Returns whether a check of the debuggers is due. Returns false if no debugger is attached.
    pub(crate) fn is_look_due(&self) -> bool {
        !self.is_empty() && milliseconds() >= self.next.load(Relaxed)
    }

    /// Schedules the next check.
    pub(crate) fn wait_for_look(&self) {
        self.next.store(milliseconds() + LOOK_TIME, Relaxed);
    }

    /// Clears the words of debuggers that have left. Returns whether no debugger remains.
    pub(crate) fn have_all_left(&self) -> bool {
        for word in self.words.iter().filter(|word| !is_there(word.load(Relaxed))) {
            word.store(0, Relaxed);
        }
        self.is_empty()
    }
}

//! Large reads and writes of files. All memory of a call must be resident during the call.
//! Therefore, a call whose buffer is a large part of the limit is issued in parts (pl-29).
//!
//! ```text
//!   read(file, address, 30 MiB) -> pin 4 MiB, read, unpin -> pin 4 MiB ... -> the sum
//! ```

use crate::group::stat;
use crate::kernel::{EFAULT, PAGE};
use crate::pins;
use crate::policy::{PART_MIN, PART_SHARE};
use crate::program::Program;
use dispatch::{Call, Step, system};
use std::sync::atomic::Ordering::Relaxed;

/// Issues a large read or write of a regular file in parts. Returns the result as a [`Step`], or
/// `None` for other calls. Signals are delivered after the last part, as for files on a disk. For a
/// file on FUSE, the kernel would let a signal interrupt the call.
pub(crate) fn split(program: &Program, call: &Call) -> Option<Step> {
    let (number, args) = (call.number(), call.args());
    let is_positioned = match number as i64 {
        libc::SYS_read | libc::SYS_write => false,
        libc::SYS_pread64 | libc::SYS_pwrite64 => true,
        _ => return None,
    };
    let limit = program.settings.options.limit? as usize;
    let part = (limit / PART_SHARE).max(PART_MIN) / PAGE * PAGE;
    let [file, address, bytes, ..] = args;
    let is_large = bytes > 2 * part && program.arena.addresses().contains(&address);
    if !is_large || program.is_confined.load(Relaxed) || !is_regular(file) {
        return None;
    }
    let (bytes, mut done) = (bytes.min(calls::TRANSFER_MAX), 0);
    while done < bytes {
        let wanted = part.min(bytes - done);
        let position = if is_positioned { args[3].wrapping_add(done) } else { 0 };
        let of_part = [file, address + done, wanted, position, 0, 0];
        let mut note = pins::Note::default();
        pins::take(&program.arena, (number, of_part), &mut note, false);
        let result = system(number as i64, of_part);
        pins::release(&program.arena, &mut note);
        match result {
            // The whole call is issued instead of its parts. If it also fails with EFAULT,
            // `flow::after` retries it.
            Err(EFAULT) if done == 0 => return None,
            Err(failed) if done == 0 => return Some(Step::Answer(failed)),
            Ok(1..) => done += result.unwrap_or(0),
            _ => break,
        }
        if result.is_ok_and(|moved| moved < wanted) {
            break;
        }
    }
    Some(Step::Answer(done as isize))
}

fn is_regular(file: usize) -> bool {
    let facts = stat(libc::SYS_fstat, [file, 0]);
    facts.is_ok_and(|facts| facts.st_mode & libc::S_IFMT == libc::S_IFREG)
}

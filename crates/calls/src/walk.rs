//! Finds the memory ranges that a system call touches, from the call's arguments.

use crate::argument::{Access, Argument, Choice};
use crate::ioctl;
use crate::memory::Memory;
use crate::policy::RANGES_MAX;
use crate::table;
use core::ops::Range;
use reports::{Walk, untagged};

mod pointees;
mod reports;
mod requests;

/// Reports each memory range that the kernel would touch if the system call were issued now.
///
/// `found` receives a range before `memory` reads any byte of the range, because `found` may have
/// to make the range accessible first. Ranges can overlap and repeat. No range is empty, and no
/// range ends above [`ADDRESS_END`](crate::ADDRESS_END). At most [`RANGES_MAX`] ranges are
/// reported.
///
/// If the kernel would refuse an argument, such as a count above its limit or an invalid address,
/// the walk reduces the count or ignores the argument. Other threads can change the memory during
/// the walk. The reported ranges correspond to the contents that the walk has read.
pub fn ranges(
    number: usize,
    arguments: [usize; 6],
    memory: &impl Memory,
    found: &mut dyn FnMut(Range<usize>, Access),
) {
    let mut walk = Walk { memory, found, arguments: &arguments, left: RANGES_MAX };
    match table::spec(number) {
        Some(spec) => {
            for (argument, value) in spec.arguments.iter().zip(arguments) {
                follow(&mut walk, *argument, value);
            }
        }
        None => arguments.into_iter().for_each(|value| walk.unknown(value)),
    }
}

/// Reports the memory to which an argument refers.
fn follow(walk: &mut Walk<'_>, argument: Argument, value: usize) {
    let address = untagged(value);
    match argument {
        Argument::Plain => {}
        Argument::Unknown => walk.unknown(value),
        Argument::Buffer(access, length) => {
            let bytes = walk.length(length, address);
            walk.report(address, bytes, access);
        }
        Argument::Text => walk.text(address, libc::PATH_MAX as usize),
        Argument::Pointee(form) => pointees::follow(walk, form, address),
        Argument::By(choice) => {
            if let Some(argument) = chosen(walk.arguments, choice) {
                follow(walk, argument, value);
            }
        }
        Argument::Ioctl => {
            let [_, request, ..] = *walk.arguments;
            follow(walk, ioctl::argument(request), value);
            // The kernel ignores the upper half of the register.
            _ = requests::follow(walk, request as u32, address);
        }
    }
}

/// Returns the kind of an argument that depends on another argument. A test checks that no row of
/// the table nests choices more than twice.
fn chosen(arguments: &[usize; 6], choice: &Choice) -> Option<Argument> {
    let value = arguments.get(usize::from(choice.argument))? & choice.mask;
    let case = choice.cases.iter().find(|(of, _)| *of == value);
    Some(case.map_or(choice.other, |(_, argument)| *argument))
}

//! Compares the ranges that a walk reports for a row with the objects of a case.

use calls::{Access, Memory, SyscallSpec, ranges};
use std::cell::RefCell;
use std::ops::Range;
use std::ptr;
use testkit::calls::trial::{Case, Need, Object, PAGE, Spoil, Trial, must, protect, raw};

/// Prepares a case and issues its system call. Returns the call's result, and the accesses that
/// each object needs. Returns `None` if the case can't be tried.
pub fn run(case: &Case, row: &SyscallSpec, spoil: Spoil) -> Option<(i64, Vec<Need>)> {
    let (mut trial, given) = Trial::prepare(case, spoil)?;
    let mut arguments = std::array::from_fn(|nth| given.get(nth).copied().unwrap_or_default());
    match spoil {
        Spoil::Nothing => compare(&trial, row, &arguments),
        Spoil::Rest => fill(&trial, row, &mut arguments, given.len()),
        Spoil::Closed(_) | Spoil::Short(_) => {}
    }
    let value = raw(row.number as i64, &arguments);
    trial.end();
    Some((value, trial.objects.into_iter().map(|object| object.need).collect()))
}

fn reported(
    trial: &Trial,
    row: &SyscallSpec,
    arguments: &[usize; 6],
) -> Vec<(Range<usize>, Access)> {
    let reported = RefCell::new(Vec::new());
    let memory = Reported { reported: &reported, objects: &trial.objects };
    ranges(row.number, *arguments, &memory, &mut |range, access| {
        reported.borrow_mut().push((range, access));
    });
    reported.into_inner()
}

/// Sets each argument that the case does not set, and for which the row describes no memory, to the
/// address of an inaccessible page.
fn fill(trial: &Trial, row: &SyscallSpec, arguments: &mut [usize; 6], given: usize) {
    let closed = must(
        libc::SYS_mmap,
        &[0, PAGE, 0, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize, usize::MAX],
    );
    for nth in given..arguments.len() {
        arguments[nth] = closed;
        if reported(trial, row, arguments).iter().any(|(range, _)| range.start == closed) {
            arguments[nth] = 0;
        }
    }
}

/// Asserts that the reported ranges equal the objects. Write-protects the objects that the call
/// only reads.
fn compare(trial: &Trial, row: &SyscallSpec, arguments: &[usize; 6]) {
    let reported = reported(trial, row, arguments);
    let named: Vec<_> = trial.objects.iter().map(|object| &object.range).collect();
    // A number can look like an address, so the test ignores ranges of unknown access.
    for (range, _) in reported.iter().filter(|(_, access)| *access != Access::Unknown) {
        let is_inside =
            |object: &&&Range<usize>| object.start <= range.start && range.end <= object.end;
        assert!(
            named.iter().any(|object| is_inside(&object)),
            "{range:#x?} is reported, objects are {named:#x?}"
        );
    }
    for object in &trial.objects {
        let inside: Vec<_> =
            reported.iter().filter(|(range, _)| object.range.contains(&range.start)).collect();
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
        assert_eq!(end, object.range.end, "of {:#x?} less is reported", object.range);
        let written = inside.iter().any(|(_, access)| *access != Access::Read);
        if !written {
            protect(&object.pages, libc::PROT_READ);
        }
    }
}

/// The memory of a trial, in which a walk is allowed to read only ranges that it has reported.
struct Reported<'t> {
    reported: &'t RefCell<Vec<(Range<usize>, Access)>>,
    objects: &'t [Object],
}

impl Memory for Reported<'_> {
    fn read(&self, address: usize, into: &mut [u8]) -> bool {
        let end = address + into.len();
        let has = |range: &Range<usize>| range.start <= address && end <= range.end;
        let is_reported = self.reported.borrow().iter().any(|(range, _)| has(range));
        assert!(is_reported, "{address:#x} is read and was not reported");
        assert!(self.objects.iter().any(|object| has(&object.range)), "{address:#x}: whose is it?");
        // SAFETY: the assertion above ensures that the bytes lie in an object, and with
        // `Spoil::Nothing` no object is inaccessible.
        unsafe { ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }
}

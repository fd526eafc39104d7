//! Tests the ranges that a walk reports for given memory. For random memory, tests that all ranges
//! are valid and that the walk ends.
#![allow(clippy::unwrap_used)]

use calls::{ADDRESS_END, Access, Memory, RANGES_MAX, ranges};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use testkit::{Choices, scaled, seed};

type Reported = Vec<(Range<usize>, Access)>;

/// Memory that consists of pieces. Addresses outside the pieces can't be read.
#[derive(Default)]
struct Pieces(BTreeMap<usize, Vec<u8>>);

impl Pieces {
    fn with(mut self, address: usize, bytes: &[u8]) -> Self {
        self.0.insert(address, bytes.to_vec());
        self
    }

    fn words(self, address: usize, words: &[usize]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.with(address, &bytes)
    }
}

impl Memory for Pieces {
    fn read(&self, address: usize, into: &mut [u8]) -> bool {
        let Some((start, bytes)) = self.0.range(..=address).next_back() else { return false };
        let from = address - start;
        let Some(found) = bytes.get(from..from + into.len()) else { return false };
        into.copy_from_slice(found);
        true
    }
}

fn reported(number: i64, arguments: &[usize], memory: &impl Memory) -> Reported {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let mut reported = Vec::new();
    ranges(number as usize, all, memory, &mut |range, access| reported.push((range, access)));
    reported
}

const NONE: Pieces = Pieces(BTreeMap::new());

#[test]
fn buffers_are_told_as_long_as_arguments_say() {
    let read = |address, bytes| reported(libc::SYS_read, &[3, address, bytes], &NONE);
    assert_eq!(read(0x10_0000, 10), [(0x10_0000..0x10_000a, Access::Write)]);
    assert!(read(0, 10).is_empty() && read(0x10_0000, 0).is_empty());
    // The kernel transfers less than 2 GiB at a time.
    assert_eq!(read(0x10_0000, usize::MAX)[0].0.len(), 0x7fff_f000);
    assert_eq!(read(ADDRESS_END - 4, 10), [(ADDRESS_END - 4..ADDRESS_END, Access::Write)]);
    assert!(read(usize::MAX, usize::MAX).is_empty() || cfg!(target_arch = "aarch64"));
    // A negative `int` is treated as 0, whatever the upper half of the register contains.
    let bind = |length| reported(libc::SYS_bind, &[3, 0x10_0000, length], &NONE);
    assert!(bind(usize::MAX).is_empty());
    assert_eq!(bind(1 << 40 | 16), [(0x10_0000..0x10_0010, Access::Read)]);
}

#[test]
fn vectors_are_told_before_what_they_name() {
    let memory = NONE.words(0x10_0000, &[0x20_0000, 5, 0x30_0000, 0, 0x40_0000, 7]);
    let vector = |count| reported(libc::SYS_readv, &[3, 0x10_0000, count], &memory);
    let expected = [
        (0x10_0000..0x10_0030, Access::Read),
        (0x20_0000..0x20_0005, Access::Write),
        (0x40_0000..0x40_0007, Access::Write),
    ];
    assert_eq!(vector(3), expected);
    assert!(vector(1025).is_empty() && vector(usize::MAX).is_empty() && vector(0).is_empty());
    // If an `iovec` can't be read, no buffer is reported for it.
    assert_eq!(vector(4).len(), 3);
}

#[test]
fn strings_are_told_by_page_up_to_their_end() {
    let open = |memory: &Pieces| reported(libc::SYS_openat, &[0, 0x10_0ff0], memory);
    let first = (0x10_0ff0..0x10_1000, Access::Read);
    let short = NONE.with(0x10_0ff0, b"abc\0............");
    assert_eq!(open(&short), std::slice::from_ref(&first));
    let long = NONE.with(0x10_0ff0, &[&[b'x'; 100][..], &[0; 4012]].concat());
    // The second range ends at the maximum length of a path.
    assert_eq!(open(&long), [first.clone(), (0x10_1000..0x10_1ff0, Access::Read)]);
    // A string without a NUL is reported up to the maximum length of a path.
    let endless = NONE.with(0x10_0ff0, &[b'x'; 9000]);
    let reported = open(&endless);
    assert_eq!(reported.iter().map(|(range, _)| range.len()).sum::<usize>(), 4096);
    assert_eq!(open(&NONE), [first]);
}

#[test]
fn an_unknown_call_names_all_that_may_be_addresses() {
    let reported = reported(5000, &[3, 0x7fff_1234_5678, usize::MAX, 0, 0x1_0000, 0xffff], &NONE);
    let one = |address: usize| (address..address + 1, Access::Unknown);
    let mut expected = vec![one(0x7fff_1234_5678)];
    if cfg!(target_arch = "aarch64") {
        expected.push(one(ADDRESS_END - 1));
    }
    expected.push(one(0x1_0000));
    assert_eq!(reported, expected);
}

#[test]
fn lengths_in_memory_are_told_first() {
    let memory = NONE.with(0x10_0000, &16_i32.to_ne_bytes()).with(0x30_0000, &[0xff; 4]);
    let name = |length| reported(libc::SYS_getsockname, &[3, 0x20_0000, length], &memory);
    let length = (0x10_0000..0x10_0004, Access::Both);
    let expected = [length.clone(), (0x20_0000..0x20_0010, Access::Write), length];
    assert_eq!(name(0x10_0000), expected);
    // No buffer is reported if its length is negative, can't be read, or is stored at address 0.
    for at in [0x30_0000, 0x50_0000, 0] {
        assert!(name(at).iter().all(|(range, _)| range.start != 0x20_0000), "{at:#x}");
    }
}

#[test]
fn requests_of_ioctl_name_what_is_behind_them() {
    let memory = NONE.words(0x10_0000, &[64, 0x20_0000, 0, 3, 0]);
    let list = reported(libc::SYS_ioctl, &[3, 0x8912, 0x10_0000], &memory);
    assert!(list.contains(&(0x20_0000..0x20_0040, Access::Write)));
    let extents = reported(libc::SYS_ioctl, &[3, 0xc020_660b, 0x10_0000], &memory);
    assert!(extents.contains(&(0x10_0020..0x10_0020 + 3 * 56, Access::Write)));
    // Any word of a structure with an unknown format may be an address.
    let other = reported(libc::SYS_ioctl, &[3, 0xc010_0000, 0x10_0000], &memory);
    let expected = [(0x10_0000..0x10_0010, Access::Both), (0x20_0000..0x20_0001, Access::Unknown)];
    assert_eq!(other, expected);
}

#[test]
fn arguments_of_a_program_are_followed() {
    let memory = NONE
        .words(0x10_0000, &[0x20_0ffc, 0x30_0ffc, 0])
        .with(0x20_0ffc, b"abc\0")
        .with(0x30_0ffc, b"xyz\0")
        .with(0x40_0ffc, b"/sh\0");
    let reported = reported(libc::SYS_execve, &[0x40_0ffc, 0x10_0000, 0], &memory);
    let starts: Vec<usize> = reported.iter().map(|(range, _)| range.start).collect();
    let expected = [0x40_0ffc, 0x10_0000, 0x20_0ffc, 0x10_0008, 0x30_0ffc, 0x10_0010];
    assert_eq!(starts, expected);
}

/// Memory with random contents: each word is computed from its address.
struct Any<'t> {
    seed: u64,
    reported: &'t RefCell<Reported>,
}

/// Generates a word that is likely in arguments: a count, an address, or another number.
fn likely(choices: &mut Choices<'_>) -> usize {
    let any = choices.u64() as usize;
    choices.weighted(&[
        (3, any % 4),
        (3, any % 70),
        (1, any % 1100),
        (6, 0x7000_0000_0000 + any % (1 << 20)),
        (1, ADDRESS_END - any % 100),
        (1, 0_usize.wrapping_sub(any % 100)),
        (1, any % (1 << 33)),
        (2, any),
    ])
}

impl Memory for Any<'_> {
    fn read(&self, address: usize, into: &mut [u8]) -> bool {
        let end = address.checked_add(into.len()).expect("it ends before the address space");
        let has = |(range, _): &(Range<usize>, Access)| range.start <= address && end <= range.end;
        let reported = self.reported.borrow();
        assert!(reported.iter().rev().any(has), "{address:#x} is read and was not reported");
        for (at, byte) in (address..).zip(into) {
            let word_seed = self.seed ^ (at as u64 / 8);
            let mut choices = Choices::seeded(word_seed);
            *byte = likely(&mut choices).to_ne_bytes()[at % 8];
        }
        // Some pages can't be read.
        !(address >> 12 ^ self.seed as usize).is_multiple_of(16)
    }
}

/// For any call, arguments and memory contents, `ranges` reports only ranges within the address
/// space, reads only memory that it has reported before, and returns.
#[test]
fn nothing_impossible_is_reported() {
    let mut choices = Choices::seeded(seed(41));
    let (mut most, mut total) = (0, 0);
    for _ in 0..scaled(30_000, 1_000_000) {
        let number = if choices.one_in(20) { choices.u64() as usize } else { choices.below(480) };
        let arguments: [usize; 6] = std::array::from_fn(|_| likely(&mut choices));
        let reported = RefCell::new(Vec::new());
        let memory = Any { seed: choices.u64(), reported: &reported };
        ranges(number, arguments, &memory, &mut |range, access| {
            assert!(range.start < range.end && range.end <= ADDRESS_END, "{number}: {range:#x?}");
            assert!(range.start > 0 && (access != Access::Unknown || range.len() == 1));
            reported.borrow_mut().push((range, access));
        });
        let count = reported.borrow().len();
        assert!(count <= RANGES_MAX, "{number}: {count} ranges");
        (most, total) = (most.max(count), total + count);
    }
    println!("{total} ranges in all, {most} in one call");
    assert!(most > 100, "vectors are followed");
}

/// Memory in which every word is a readable address, so that a walk without a limit would never
/// end.
struct Endless;

impl Memory for Endless {
    fn read(&self, _: usize, into: &mut [u8]) -> bool {
        let word = 0x0101_0101_0101_usize.to_ne_bytes();
        into.iter_mut().zip(word.iter().cycle()).for_each(|(byte, of)| *byte = *of);
        true
    }
}

#[test]
fn a_walk_ends() {
    let all = [0x10_0008, 0x10_0010, 0x10_0018, 0x10_0020, 0x10_0028, 0x10_0030];
    for number in 0..512 {
        let mut count = 0;
        ranges(number, all, &Endless, &mut |_, _| count += 1);
        assert!(count <= RANGES_MAX, "{number}: {count} ranges");
    }
}

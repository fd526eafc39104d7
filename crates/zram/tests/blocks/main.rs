//! Tests blocks of several slots: reads, writes and discards of parts of blocks.
#![allow(clippy::unwrap_used)]

mod races;
mod refused;

use fastrand::Rng;
use page::page_size;
use testkit::device::{DeviceModel, Setup};
use testkit::idle::{mark_idle_up_to, next_second};
use testkit::{Run, scaled, seed};
use zram::{Config, Device, Error, OrderStat, SLOT_BYTES};
use zsmalloc::{Geometry, KernelGeometry};

fn config(block: usize, disksize: usize) -> Config {
    Config { block, streams: Some(2), ..Config::new(disksize as u64).unwrap() }
}

fn device(block: usize, disksize: usize) -> Device {
    Device::new(config(block, disksize)).unwrap()
}

fn of_blocks(device: &Device) -> OrderStat {
    device.order_stats().pop().unwrap()
}

fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

/// Returns `len` bytes that compress to about half of `len`.
fn half(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = noise(rng, len);
    bytes.chunks_mut(64).for_each(|chunk| chunk[32..].fill(7));
    bytes
}

#[test]
fn a_shadow_agrees_at_every_order() {
    let kernel = Geometry::Kernel(KernelGeometry::default());
    for (nth, (order, algorithm, geometry)) in [
        (0, "lz4", Geometry::default()),
        (1, "lz4", Geometry::default()),
        (2, "zstd", Geometry::default()),
        (3, "lz4", kernel),
        (4, "lz4hc", Geometry::default()),
        (4, "zstd", kernel),
    ]
    .into_iter()
    .enumerate()
    {
        let block = SLOT_BYTES << order;
        // The last block has fewer slots than the others.
        let setup = Setup::new(12 * block + SLOT_BYTES);
        let setup = Setup { block, algorithm, geometry, is_compacted: true, ..setup };
        let steps = scaled(2_500, 50_000);
        let run = Run { seed: seed(nth as u64), steps, first: 0, every: 100 };
        let report = testkit::run::<DeviceModel>(setup, run).unwrap();
        println!("order {order}, {algorithm}, {geometry:?}: {report:?}");
        let blocks = report.blocks.unwrap();
        let is_used = blocks.written > 100 && blocks.partial_writes > 100 && blocks.rewrites > 10;
        assert!(order == 0 || is_used, "{blocks:?}");
    }
}

#[test]
fn what_is_done_with_blocks_is_counted() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(1)));
    let device = device(block, 64 * block);
    let bytes = half(&mut rng, 3 * block);
    device.write(block as u64, &bytes).unwrap();
    let mut back = vec![0; 3 * block];
    device.read(block as u64, &mut back).unwrap();
    assert!(back == bytes);
    let stat = of_blocks(&device);
    assert_eq!((stat.block, stat.written, stat.read), (block as u64, 3, 3));
    // Eight reads of parts of a slot decompress the block once. No read counts as a read of a whole
    // block.
    (0..8).for_each(|nth| device.read(block as u64 + nth * 512, &mut back[..512]).unwrap());
    assert_eq!(of_blocks(&device).partial_reads, 8);
    // The third slot of the first block is overwritten. One dead member of four does not cause a
    // rewrite, but two dead members do.
    let at = |slot: usize| (block + slot * SLOT_BYTES) as u64;
    device.write(at(2), &bytes[..SLOT_BYTES]).unwrap();
    let stat = of_blocks(&device);
    assert_eq!((stat.partial_writes, stat.dead_slots + stat.rewrites), (1, 1));
    device.discard(at(0), 2 * SLOT_BYTES as u64).unwrap();
    let stat = of_blocks(&device);
    assert_eq!((stat.dead_slots, device.mm_stat().orig_data_size), (0, 10 * SLOT_BYTES as u64));
    device.discard(at(3), SLOT_BYTES as u64).unwrap();
    device.check();
    assert_eq!(device.mm_stat().orig_data_size, 9 * SLOT_BYTES as u64);
}

#[test]
fn same_filled_slots_cost_nothing() {
    let (block, mut rng) = (16 * SLOT_BYTES, Rng::with_seed(seed(2)));
    let (one, other) = (device(block, 4 * block), device(block, 4 * block));
    let mut bytes = half(&mut rng, 8 * SLOT_BYTES);
    one.write(0, &bytes).unwrap();
    one.discard(0, one.disksize()).unwrap();
    // The block contains eight slots of data and eight same-filled slots.
    bytes.resize(block, 0x55);
    bytes[12 * SLOT_BYTES..].fill(0);
    one.write(0, &bytes).unwrap();
    let mut back = vec![1; block];
    one.read(0, &mut back).unwrap();
    assert!(back == bytes);
    let stat = one.mm_stat();
    assert_eq!((stat.same_pages, stat.orig_data_size), (8, block as u64));
    let mut eight = zcomp::codecs()[0]
        .prepare(&zcomp::Params::default(), block)
        .and_then(|prepared| prepared.stream())
        .unwrap();
    let alone = eight.compress(&bytes[..8 * SLOT_BYTES], &mut vec![0; 2 * block]).unwrap().unwrap();
    assert_eq!(stat.compr_data_size, alone as u64 + 2);
    // A block that repeats one pattern needs no object.
    other.write(0, &vec![9; block]).unwrap();
    let stat = other.mm_stat();
    assert_eq!((stat.same_pages, stat.compr_data_size), (16, 0));
    other.check();
}

#[test]
fn raw_blocks_are_kept_as_they_are() {
    let (block, mut rng) = (8 * SLOT_BYTES, Rng::with_seed(seed(3)));
    let device = device(block, 2 * block);
    let mut bytes = noise(&mut rng, 2 * block);
    bytes[block..block + 3 * SLOT_BYTES].fill(0);
    device.write(0, &bytes).unwrap();
    let stat = device.mm_stat();
    assert_eq!((stat.huge_pages, stat.same_pages), (8 + 5, 3));
    assert_eq!(device.block_state().filter(|state| state.is_huge).count(), 13);
    let mut back = vec![0; 2 * block];
    device.read(0, &mut back).unwrap();
    assert!(back == bytes);
    device.check();
}

#[test]
fn dead_slots_of_a_raw_block_are_huge_pages() {
    let (block, mut rng) = (8 * SLOT_BYTES, Rng::with_seed(seed(5)));
    let device = device(block, 64 * block);
    device.write(0, &noise(&mut rng, 64 * block)).unwrap();
    device.write(0, &noise(&mut rng, SLOT_BYTES)).unwrap();
    let huge = || device.block_state().filter(|state| state.is_huge).count();
    let counted = || (device.mm_stat().huge_pages, huge(), of_blocks(&device).dead_slots);
    assert_eq!(counted(), (513, 512, 1));
    device.compact();
    assert_eq!(counted(), (512, 512, 0));
}

/// At the memory limit, an overwrite of a slot rewrites the block. The new object takes the place
/// of the old object.
#[test]
fn an_overwrite_that_needs_no_more_room_never_fails() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(4)));
    let device = device(block, 64 * block);
    let bytes = half(&mut rng, 64 * block);
    device.write(0, &bytes).unwrap();
    device.compact();
    device.set_mem_limit(Some(1));
    let mut found = vec![0; SLOT_BYTES];
    for slot in (0..256).map(|nth| nth * 37 % 256) {
        // The new data have more zeros than the old data, and so need less memory.
        let mut new = bytes[slot * SLOT_BYTES..][..SLOT_BYTES].to_vec();
        new[100..3000].fill(0);
        device.write((slot * SLOT_BYTES) as u64, &new).unwrap();
        device.read((slot * SLOT_BYTES) as u64, &mut found).unwrap();
        assert!(found == new, "slot {slot}");
    }
    device.check();
}

#[test]
fn nothing_dead_is_left_by_compact() {
    let (block, mut rng) = (16 * SLOT_BYTES, Rng::with_seed(seed(5)));
    let device = device(block, 64 * block);
    device.write(0, &half(&mut rng, 64 * block)).unwrap();
    (0..64).for_each(|nth| device.discard((nth * block) as u64, SLOT_BYTES as u64).unwrap());
    let stat = of_blocks(&device);
    assert!(stat.dead_slots > 0 && stat.dead_slots <= 64 * 16 / 32 + 1, "{stat:?}");
    device.compact();
    device.check();
    assert_eq!(of_blocks(&device).dead_slots, 0);
}

#[test]
fn marks_and_times_are_the_blocks() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(6)));
    let config = Config { track_access: true, ..config(block, 4 * block) };
    let device = Device::new(config).unwrap();
    device.write(0, &half(&mut rng, 2 * block)).unwrap();
    device.write(SLOT_BYTES as u64, &half(&mut rng, SLOT_BYTES)).unwrap();
    device.mark_idle().unwrap();
    let idle = || device.block_state().map(|state| state.is_idle).collect::<Vec<_>>();
    assert_eq!(idle(), [true; 8]);
    assert!(device.block_state().all(|state| state.accessed_seconds > Some(0)));
    // A read of one slot counts as an access to the slot's block. Slot 1 is not in the block.
    device.read(2 * SLOT_BYTES as u64, &mut [0]).unwrap();
    assert_eq!(idle(), [false, true, false, false, true, true, true, true]);
    device.mark_idle_older(1 << 40).unwrap();
    assert_eq!(idle(), [false; 8]);
}

/// A rewrite of a block without its dead members does not count as an access.
#[test]
fn blocks_that_are_stored_anew_stay_idle() {
    let (block, mut rng) = (16 * SLOT_BYTES, Rng::with_seed(seed(17)));
    let device = device(block, 4 * block);
    device.write(0, &half(&mut rng, 4 * block)).unwrap();
    device.discard(0, SLOT_BYTES as u64).unwrap();
    device.mark_idle().unwrap();
    assert_eq!(of_blocks(&device).rewrites, 0);
    device.compact();
    assert_eq!(of_blocks(&device).rewrites, 1);
    assert!(device.block_state().all(|state| state.is_idle));
    device.read(block as u64 - 1, &mut [0]).unwrap();
    assert_eq!(device.block_state().filter(|state| !state.is_idle).count(), 15);
}

/// If memory for a slot's own object is refused, the slot is written into its block. The access
/// time is the same as after a separate write of the slot.
#[test]
fn a_slot_that_is_written_into_its_block_is_young() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(16)));
    let config = Config { track_access: true, ..config(block, 16 * block) };
    let device = Device::new(config).unwrap();
    let mut bytes = half(&mut rng, 16 * block);
    device.write(0, &bytes).unwrap();
    device.compact();
    device.set_mem_limit(Some(1));
    let last = next_second();
    bytes[100..3000].fill(0);
    device.write(0, &bytes[..SLOT_BYTES]).unwrap();
    let stat = of_blocks(&device);
    assert_eq!((stat.rewrites, stat.dead_slots), (1, 0), "it went beside its block");
    mark_idle_up_to(&device, last);
    let young = device.block_state().filter(|state| !state.is_idle).map(|state| state.index);
    assert_eq!(young.collect::<Vec<_>>(), [0, 1, 2, 3]);
    device.check();
}

/// Some chain lengths that are valid for blocks of 4 KiB are invalid for larger blocks.
#[test]
fn impossible_chains_are_refused() {
    let geometry = Geometry::Kernel(KernelGeometry { chain: 256, ..KernelGeometry::default() });
    assert!(Device::new(Config { geometry, ..config(SLOT_BYTES, 1 << 20) }).is_ok());
    let error = Device::new(Config { geometry, ..config(4 * SLOT_BYTES, 1 << 20) }).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL, "{error}");
    assert!(error.to_string().contains("1 to 64 are possible"), "{error}");
}

#[test]
fn impossible_blocks_are_refused() {
    for block in [0, 1, 2048, 12288, 1 << 17, usize::MAX] {
        let refused = Device::new(config(block, 1 << 20)).unwrap_err();
        assert_eq!((refused.errno(), refused), (22, Error::Block { bytes: block }));
    }
    let largest = |block| Device::new(config(block, 16 << 40)).unwrap_err().to_string();
    assert!(largest(SLOT_BYTES).contains("16 TiB") && largest(16 * SLOT_BYTES).contains("15 TiB"));
}

/// A slot in a block needs no entry. A block of 16 slots needs 8 bytes in total.
#[test]
fn slots_in_blocks_cost_no_words() {
    const SLOTS: usize = 1 << 15;
    let block = 16 * SLOT_BYTES;
    let device = device(block, SLOTS * SLOT_BYTES);
    let overhead = || device.mem_total() - device.mm_stat().mem_used_total;
    let before = overhead();
    let mut rng = Rng::with_seed(seed(18));
    for at in (0..SLOTS * SLOT_BYTES).step_by(block) {
        let bytes = noise(&mut rng, 64).repeat(block / 64);
        device.write(at as u64, &bytes).unwrap();
    }
    let of_blocks = overhead() - before;
    println!("{of_blocks} bytes beside the pool for {SLOTS} slots");
    // `of_blocks` includes the maps and descriptors of the pool. The entries alone would take 8
    // bytes a slot if each slot had an entry.
    assert!(of_blocks < SLOTS as u64 * 4, "{of_blocks} bytes for {SLOTS} slots");
    // A slot that is written alone needs an entry, which is created together with the other entries
    // of its leaf.
    device.write(5 * SLOT_BYTES as u64, &noise(&mut rng, SLOT_BYTES)).unwrap();
    assert!(overhead() - before < of_blocks + 3 * page_size() as u64);
    // The discard of a whole block needs no entries of slots.
    device.discard(0, device.disksize()).unwrap();
    device.check();
    assert_eq!(device.mm_stat().orig_data_size, 0);
}

/// Slots move between their block and their own entries in all possible ways.
#[test]
fn holes_are_kept_as_long_as_the_block() {
    let block = 4 * SLOT_BYTES;
    let device = device(block, 2 * block);
    let mut rng = Rng::with_seed(seed(19));
    let whole = half(&mut rng, block);
    let held = |expected: [bool; 4]| {
        device.check();
        let mut found = vec![0xee; block];
        device.read(0, &mut found).unwrap();
        let slots: Vec<u64> = device.block_state().map(|state| state.index).collect();
        for (nth, is_there) in expected.into_iter().enumerate() {
            let slot = nth * SLOT_BYTES..(nth + 1) * SLOT_BYTES;
            match is_there {
                true => assert!(found[slot.clone()] == whole[slot], "slot {nth}"),
                false => assert!(found[slot].iter().all(|&byte| byte == 0), "slot {nth}"),
            }
            assert_eq!(slots.contains(&(nth as u64)), is_there, "slot {nth}");
        }
    };
    let slot = |nth: usize| (nth * SLOT_BYTES) as u64;
    device.write(0, &whole).unwrap();
    held([true; 4]);
    device.discard(slot(1), SLOT_BYTES as u64).unwrap();
    held([true, false, true, true]);
    // A slot with its own entry also becomes a hole. The data of this slot in the block are
    // outdated.
    device.write(slot(2), &whole[2 * SLOT_BYTES..3 * SLOT_BYTES]).unwrap();
    held([true, false, true, true]);
    device.discard(slot(2), SLOT_BYTES as u64).unwrap();
    held([true, false, false, true]);
    device.write(slot(1) + 9, &whole[SLOT_BYTES + 9..2 * SLOT_BYTES]).unwrap();
    device.write(slot(1), &whole[SLOT_BYTES..SLOT_BYTES + 9]).unwrap();
    held([true, true, false, true]);
    // When the last live member is freed, the object and the holes are freed, too.
    device.discard(slot(0), SLOT_BYTES as u64).unwrap();
    device.discard(slot(3), SLOT_BYTES as u64).unwrap();
    held([false, true, false, false]);
    device.write(0, &whole).unwrap();
    held([true; 4]);
    device.discard(slot(1), 2 * SLOT_BYTES as u64).unwrap();
    held([true, false, false, true]);
    device.discard(0, block as u64).unwrap();
    held([false; 4]);
}

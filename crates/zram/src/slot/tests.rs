use super::*;
use fastrand::Rng;

/// Returns a generator seeded with `UZRAM_SEED`, or with the test's own seed, and prints the seed.
fn rng(own: u64) -> Rng {
    let seed = std::env::var("UZRAM_SEED").map_or(own, |seed| seed.parse().unwrap());
    println!("UZRAM_SEED={seed}");
    Rng::with_seed(seed)
}

/// Returns patterns of every kind: those that fit in a payload after sign extension, those with two
/// equal halves, and others.
fn patterns(rng: &mut Rng) -> Vec<u64> {
    let named =
        [0, 1, u64::MAX, 0x4141_4141_4141_4141, 0xdead_beef_dead_beef, 0x1122_3344_5566_7788];
    let edges = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, !(1 << bit), u64::MAX << bit]);
    let random = (0..1000).flat_map(|_| {
        let (word, half) = (rng.u64(..), u64::from(rng.u32(..)));
        [word, half << 32 | half, word >> rng.u32(..64), !(word >> rng.u32(..64))]
    });
    named.into_iter().chain(edges).chain(random.collect::<Vec<_>>()).collect()
}

/// Returns places with the extreme values of every field, and some values between them.
fn places(rng: &mut Rng) -> Vec<BackingPlace> {
    let mut places = Vec::new();
    let last = (1 << GRAIN_BITS) - 1;
    for grain in [0, 1, last, rng.u64(..last), rng.u64(..last)] {
        for len in [1, 8, SLOT_BYTES, 1 << 16, rng.usize(1..1 << 16)] {
            for slots in 1..=16 {
                places.extend((0..4).map(|priority| BackingPlace { grain, len, slots, priority }));
            }
        }
    }
    places
}

/// Returns the content of an entry that stores an encoded slot.
fn stored<'a>((coded, flags): &'a (Coded<'a>, Flags)) -> (Content<&'a [u8]>, Old) {
    let flags = flags.bits();
    let object = |bytes: &'a [u8]| {
        (Content::Object { bytes, flags }, Old::Object { bytes: bytes.len(), flags })
    };
    match coded {
        Coded::Payload(payload) => (Content::Inline(payload.bits()), Old::Inline(payload.bits())),
        Coded::Pattern(bytes) => object(bytes),
        Coded::Object(bytes) => object(bytes),
    }
}

/// Asserts that an encoded slot decodes to the same slot.
fn assert_decodes_to(slot: Slot<'_>) {
    let coded = slot.coded();
    let (content, old) = stored(&coded);
    assert_eq!(Slot::of(content), slot, "{coded:?}");
    assert_eq!(SlotKind::of(old), slot.kind(), "{coded:?}");
    assert_eq!(is_empty(content), slot == Slot::Empty);
    let place = match slot {
        Slot::Backed(place) => Some(place),
        _ => None,
    };
    assert_eq!((BackingPlace::of(content), BackingPlace::of(old)), (place, place));
    if let Content::Inline(payload) = content {
        assert_eq!(payload >> 59, 0, "{slot:?}");
    }
}

#[test]
fn every_slot_comes_back_of_its_code_and_no_two_share_one() {
    let mut rng = rng(7);
    let mut slots = vec![Slot::Empty, Slot::Hole];
    slots.extend(patterns(&mut rng).into_iter().map(Slot::Same));
    slots.extend(places(&mut rng).into_iter().map(Slot::Backed));
    let mut payloads = std::collections::HashMap::new();
    for &slot in &slots {
        assert_decodes_to(slot);
        if let (Coded::Payload(payload), _) = slot.coded() {
            let other = payloads.insert(payload.bits(), slot);
            assert!(other.is_none_or(|other| other == slot), "{other:?} and {slot:?}");
        }
    }
}

/// Objects of every length are decoded, each with all combinations of flags.
#[test]
fn every_object_is_one_slot() {
    let mut rng = rng(8);
    let mut bytes = [0; SLOT_BYTES];
    rng.fill(&mut bytes);
    for len in 1..=SLOT_BYTES {
        for bits in 0..16 {
            let (object, flags) = (&bytes[..len], Flags::from_bits(bits));
            let slot = Slot::of(Content::Object { bytes: object, flags: bits });
            assert_eq!(slot.kind(), SlotKind::of(Old::Object { bytes: len, flags: bits }));
            assert!(slot.kind().is_stored());
            let expected = match len {
                PATTERN_BYTES => Slot::Same(u64::from_ne_bytes(object.try_into().unwrap())),
                SLOT_BYTES => Slot::Raw(&bytes),
                _ => Slot::Compressed { bytes: object, priority: bits & 3 },
            };
            assert_eq!(slot, expected, "{len} bytes, flags {bits:#06b}");
            assert_decodes_to(slot);
            if let (Coded::Object(coded), coded_flags) = slot.coded() {
                let priority = if len == SLOT_BYTES { 0 } else { flags.priority() };
                assert_eq!((coded, coded_flags), (object, Flags::of_priority(priority)));
            }
            assert_eq!(is_object_len(len), len != PATTERN_BYTES);
        }
    }
    assert!(!is_object_len(0) && !is_object_len(SLOT_BYTES + 1));
}

#[test]
fn flags_keep_each_other() {
    for bits in 0..16 {
        let flags = Flags::from_bits(bits);
        let all = |flags: Flags| {
            (flags.has(Flags::INCOMPRESSIBLE), flags.has(Flags::IDLE), flags.priority())
        };
        let (incompressible, idle, priority) = (bits & 8 != 0, bits & 4 != 0, bits & 3);
        assert_eq!((all(flags), flags.bits()), ((incompressible, idle, priority), bits));
        assert_eq!(all(flags.with(Flags::IDLE)), (incompressible, true, priority));
        assert_eq!(all(flags.without(Flags::IDLE)), (incompressible, false, priority));
        assert_eq!(all(flags.with(Flags::INCOMPRESSIBLE)), (true, idle, priority));
    }
}

/// Compares the encoding of payloads with known values.
#[test]
fn payloads_mean_what_they_meant() {
    let place =
        |grain, len, slots, priority| Slot::Backed(BackingPlace { grain, len, slots, priority });
    let known = [
        (0x000_0000_0000_0000, Slot::Empty),
        (0x600_0000_0000_0000, Slot::Hole),
        (0x200_0000_0000_0000, Slot::Same(0)),
        (0x200_0000_0000_0001, Slot::Same(1)),
        (0x3ff_ffff_ffff_ffff, Slot::Same(u64::MAX)),
        (0x200_7fff_1234_5678, Slot::Same(0x7fff_1234_5678)),
        (0x300_0000_0000_0000, Slot::Same(0xff00_0000_0000_0000)),
        (0x400_0000_4141_4141, Slot::Same(0x4141_4141_4141_4141)),
        (0x400_0000_dead_beef, Slot::Same(0xdead_beef_dead_beef)),
        (0x700_0000_0000_0000, place(0, 1, 1, 0)),
        (0x7c0_3ffc_0000_0005, place(5, 4096, 1, 3)),
        (0x77f_ffff_ffff_ffff, place((1 << 34) - 1, 1 << 16, 16, 1)),
    ];
    for (payload, slot) in known {
        assert_eq!(Slot::of(Content::Inline(payload)), slot, "{payload:#x}");
        assert_eq!(slot.coded(), (Coded::Payload(Payload(payload)), Flags::NONE), "{slot:?}");
    }
    assert_eq!(Payload::of_pattern(0x1122_3344_5566_7788), None);
}

#[test]
fn patterns_are_found_and_written() {
    let mut block = vec![0u8; 4096];
    assert_eq!(same_pattern(&block), Some(0));
    fill(&mut block, 0x1122_3344_5566_7788, 0);
    assert_eq!(same_pattern(&block), Some(0x1122_3344_5566_7788));
    for at in [8, 4095, 2000] {
        let mut other = block.clone();
        other[at] ^= 1;
        assert_eq!(same_pattern(&other), None, "byte {at}");
    }
    for (at, len) in [(0, 4096), (1, 10), (7, 1), (13, 4083), (4095, 1), (8, 0)] {
        let mut part = vec![0; len];
        fill(&mut part, 0x1122_3344_5566_7788, at);
        assert_eq!(part, block[at..at + len], "{len} bytes at {at}");
    }
}

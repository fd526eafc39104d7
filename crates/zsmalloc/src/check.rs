//! Assertions that check the whole state of a pool.

use crate::class::FULL;
use crate::class_guard::ClassGuard;
use crate::fork::RepairedPool;
use crate::inner::PoolInner;
use crate::sync::Ordering::Relaxed;
use page::ExtentId;

/// Asserts that the state of every class, zspage and entry is consistent. No other thread is
/// allowed to use the pool during the check.
pub(crate) fn check_pool(pool: RepairedPool<'_>) {
    let (inner, entries) = (pool.inner(), pool.entries());
    let (mut retained, mut committed) = (0, 0);
    let mut lens = Vec::new();
    for class in &inner.classes {
        let locked = inner.lock(class);
        check_class(inner, &locked, |offset, index| {
            let entry = entries.peek(index, |entry, _| entry.peek().decode());
            let Some(Ok(place)) = entry else {
                panic!("the object at {offset:#x} is of entry {index}, which holds {entry:?}")
            };
            assert_eq!(place.offset, offset, "entry {index} names another object (I1)");
            assert!(place.len <= class.capacity(), "entry {index}: {place:?} in {class:?}");
            lens.push(place.len);
        });
        retained += locked.state.retained as usize;
        committed += locked.state.committed as usize;
    }
    assert_eq!(retained, inner.retained.pages(), "pages retained");
    assert_eq!(committed, inner.used(), "pages committed");
    check_plan(inner, &lens);
    inner.memory.check();
    entries.check();
    inner.handles.iter().for_each(|handles| handles.check(entries));
}

/// Asserts that the class's whole state is consistent. Calls `visit` with each live object's offset
/// and entry number.
fn check_class(inner: &PoolInner, locked: &ClassGuard<'_>, mut visit: impl FnMut(u64, u32)) {
    let mut listed = 0;
    for group in 0..FULL {
        let has_zspages = locked.state.groups >> group & 1 == 1;
        let zspages = &locked.state.by_fullness[group];
        assert_eq!(has_zspages, !zspages.is_empty(), "group {group}");
        listed += zspages.check(|id| &locked.fixed_header(id).by_fullness);
        for id in locked.group(group) {
            let inuse = locked.fixed_header(id).inuse();
            assert_eq!(locked.class().group(inuse), group, "group of {id:?}");
        }
    }
    let offering = locked.state.offering.check(|id| &locked.fixed_header(id).offering);
    for id in locked.offering() {
        assert!(locked.fixed_header(id).has_offer(), "{id:?} offers no retained page");
    }
    let noted = inner.retained.has_offer(locked.class());
    assert_eq!(noted, offering > 0, "whether the class offers retained pages");
    let (mut inuse, mut committed, mut retained, mut zspages, mut full) = (0, 0, 0, 0, 0);
    let mut offer = 0;
    for id in locked.all() {
        check_zspage(inner, locked, id, &mut visit);
        let head = locked.fixed_header(id);
        zspages += 1;
        full += u32::from(locked.class().group(head.inuse()) == FULL);
        inuse += head.inuse();
        retained += head.retained().len();
        offer += usize::from(head.has_offer());
        committed += head.committed().len();
    }
    assert_eq!(offer, offering, "zspages that offer retained pages");
    let state = &locked.state;
    assert_eq!(
        (inuse, committed, retained, zspages, full),
        (state.inuse, state.committed, state.retained, state.zspages, zspages - listed as u32)
    );
}

fn check_zspage(
    inner: &PoolInner,
    locked: &ClassGuard<'_>,
    id: ExtentId,
    visit: &mut impl FnMut(u64, u32),
) {
    let extent = inner.memory.space.extent(id);
    let header = locked.header(id);
    assert_eq!(extent.tag(), locked.class().position);
    assert_eq!(extent.pages(), locked.class().pages());
    header.check();
    for slot in 0..locked.class().objects() {
        if let Some(entry) = header.entry(slot) {
            visit(header.offset(slot), entry);
        }
    }
}

/// Asserts that the plan is consistent, and that the classes' populations match `lens`, the lengths
/// of all objects.
fn check_plan(inner: &PoolInner, lens: &[usize]) {
    inner.plan.check();
    let mut least = 1;
    for class in &inner.classes {
        let is_open = inner.is_open(class);
        let noted = [least - 1, least, class.capacity()].map(|len| class.takes(len));
        assert_eq!(noted, [false, is_open, is_open], "{class:?}");
        least = if is_open { class.capacity() + 1 } else { least };
    }
    let mut populations = vec![0; inner.classes.len()];
    for &len in lens {
        populations[inner.classes_of(len).map_or(0, |(own, _)| own.position as usize)] += 1;
    }
    let counted = inner.classes.iter().map(|class| class.population.load(Relaxed));
    assert!(counted.eq(populations), "populations");
}

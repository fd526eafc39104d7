//! Assertions of a pool's whole state.

use crate::class::FULL;
use crate::class_guard::ClassGuard;
use crate::inner::PoolInner;
use crate::search::lowest_committed;
use crate::sync::Ordering::Relaxed;
use page::ExtentId;

/// Asserts the state of every class, zspage and entry. Nothing else uses the pool meanwhile.
pub(crate) fn check_pool(inner: &PoolInner) {
    let (mut retained, mut committed) = (0, 0);
    let mut lens = Vec::new();
    for class in &inner.classes {
        let locked = inner.lock(class);
        check_class(inner, &locked, |offset, index| {
            let entry = inner.entries.peek(index, |entry, _| entry.peek().decode());
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
    inner.entries.check();
    inner.handles.iter().for_each(|handles| handles.check(&inner.entries));
}

/// Asserts the class's whole state. `visit` gets each live object's offset and entry's number.
fn check_class(inner: &PoolInner, locked: &ClassGuard<'_>, mut visit: impl FnMut(u64, u32)) {
    let mut listed = 0;
    for group in 0..FULL {
        let has_zspages = locked.state.groups >> group & 1 == 1;
        assert_eq!(has_zspages, locked.state.heads[group] != 0, "group {group}");
        let mut previous = 0;
        for id in locked.group(group) {
            listed += 1;
            assert!(listed <= locked.state.zspages, "group {group} has a cycle");
            assert_eq!(locked.fixed_header(id).group.previous.load(Relaxed), previous);
            assert_eq!(
                locked.class().group(locked.fixed_header(id).inuse()),
                group,
                "group of {id:?}"
            );
            previous = id.to_raw();
        }
    }
    let mut offering = 0;
    let mut previous = 0;
    for id in locked.offering() {
        offering += 1;
        assert!(offering <= locked.state.zspages, "those that offer pages are a cycle");
        assert!(
            locked.contains(id) && locked.fixed_header(id).has_offer(),
            "{id:?} offers no retained page"
        );
        assert_eq!(locked.fixed_header(id).offers.previous.load(Relaxed), previous);
        previous = id.to_raw();
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
        retained += head.retained.len();
        offer += u32::from(head.has_offer());
        committed += head.committed.len();
    }
    assert_eq!(offer, offering, "zspages that offer retained pages");
    let state = &locked.state;
    assert_eq!(
        (inuse, committed, retained, zspages, full),
        (state.inuse, state.committed, state.retained, state.zspages, zspages - listed)
    );
}

fn check_zspage(
    inner: &PoolInner,
    locked: &ClassGuard<'_>,
    id: ExtentId,
    visit: &mut impl FnMut(u64, u32),
) {
    let extent = inner.memory.extent(id);
    let header = locked.header(id);
    assert_eq!(extent.tag(), locked.class().position);
    assert_eq!(extent.pages(), locked.class().pages());
    assert_eq!(header.check(), header.fixed.inuse(), "live slots of {id:?}");
    for page in 0..page::EXTENT_PAGES_MAX {
        // I5: committed for a live object, or retained; never neither.
        let live = page < extent.pages() && locked.is_live(header, page, header.fixed.inuse());
        let retained = header.fixed.retained.contains(page);
        assert!(!(live && retained), "page {page} of {id:?} is retained under a live object");
        let committed = header.fixed.committed.contains(page);
        assert_eq!(committed, live || retained, "page {page} of {id:?}");
    }
    let has_pages =
        |slot: &u32| header.fixed.committed.contains_all(locked.class().pages_for(*slot));
    let mut free = (0..locked.class().objects()).filter(|&slot| !header.is_taken(slot));
    assert_eq!(
        lowest_committed(locked, id),
        free.find(has_pages),
        "free slots of {id:?} with pages"
    );
    for slot in 0..locked.class().objects() {
        if let Some(entry) = header.entry(slot) {
            visit(extent.start() + locked.class().offset(slot), entry);
        }
    }
}

/// Asserts the plan's state, and that the populations are those of objects of `lens` bytes.
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

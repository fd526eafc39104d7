//! Tests of the plan: classes open and close as the population shifts, contents do not change, and
//! an emptied pool is small.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use testkit::contents::stamped;
use testkit::load::Sizes;
use testkit::wait::until;
use testkit::{is_long, seed};
use zsmalloc::{Columns, Config, Content, EntryPool, Geometry, Handle, Pool};

/// A pool of handles or of entries, whose objects have numbers.
trait Store {
    fn put(&mut self, nth: usize, bytes: &[u8]);
    fn free(&mut self, nth: usize);
    fn expect(&self, nth: usize, bytes: &[u8]);
    fn compact(&self) -> usize;
    fn trim(&self);
    fn check(&self);
    fn used(&self) -> usize;
    /// Returns the pool's memory in bytes, and the number of slots in the existing zspages.
    fn left(&self) -> (usize, u64);
    fn plans(&self) -> u64;
    fn compact_in_background(&self);
}

struct Handles {
    pool: Pool,
    handles: Vec<Option<Handle>>,
}

impl Store for Handles {
    fn put(&mut self, nth: usize, bytes: &[u8]) {
        self.free(nth);
        self.handles[nth] = Some(self.pool.store(bytes).unwrap());
    }

    fn free(&mut self, nth: usize) {
        self.handles[nth].take().into_iter().for_each(|handle| self.pool.free(handle).unwrap());
    }

    fn expect(&self, nth: usize, bytes: &[u8]) {
        assert!(*self.pool.read(self.handles[nth].as_ref().unwrap()).unwrap() == *bytes, "{nth}");
    }

    fn compact(&self) -> usize {
        self.pool.compact()
    }

    fn trim(&self) {
        self.pool.trim();
    }

    fn check(&self) {
        self.pool.check();
        assert_eq!(self.pool.len() as usize, self.handles.iter().flatten().count());
    }

    fn used(&self) -> usize {
        self.pool.pages().used()
    }

    fn left(&self) -> (usize, u64) {
        (self.pool.bytes(), self.pool.classes().iter().map(|stat| stat.obj_allocated).sum())
    }

    fn plans(&self) -> u64 {
        self.pool.compaction_stat().plans
    }

    fn compact_in_background(&self) {
        self.pool.compact_in_background();
    }
}

struct Words(std::sync::Arc<EntryPool>);

impl Store for Words {
    fn put(&mut self, nth: usize, bytes: &[u8]) {
        let staged = self.0.stage(nth as u32, bytes).unwrap();
        self.0.lock(nth as u32).unwrap().replace(staged, 0);
    }

    fn free(&mut self, nth: usize) {
        self.0.lock(nth as u32).unwrap().set_payload(0);
    }

    fn expect(&self, nth: usize, bytes: &[u8]) {
        let pin = self.0.read(nth as u32);
        assert!(pin.content() == Content::Object { bytes, flags: 0 }, "{nth}");
    }

    fn compact(&self) -> usize {
        self.0.compact()
    }

    fn trim(&self) {
        self.0.trim();
    }

    fn check(&self) {
        self.0.check();
    }

    fn used(&self) -> usize {
        self.0.pages().used()
    }

    fn left(&self) -> (usize, u64) {
        (self.0.bytes(), self.0.classes().iter().map(|stat| stat.obj_allocated).sum())
    }

    fn plans(&self) -> u64 {
        self.0.compaction_stat().plans
    }

    fn compact_in_background(&self) {
        self.0.compact_in_background();
    }
}

/// The maximum number of pages by which moves to finer classes are allowed to enlarge a pool.
const REFINED_MAX: usize = 8;
/// The maximum number of objects at a time for order 0. For a larger `order` the number is smaller,
/// so that the total bytes are the same.
const OBJECTS: usize = 12_000;

/// Returns pools for objects of up to 4096 << `order` bytes.
fn subjects(order: u32) -> [Subject; 2] {
    let config = || Config { geometry: Geometry::Native { order }, ..Config::default() };
    let objects = OBJECTS >> order;
    let handles = (0..objects).map(|_| None).collect();
    let stores: [Box<dyn Store>; 2] = [
        Box::new(Handles { pool: Pool::new(config()).unwrap(), handles }),
        Box::new(Words(
            EntryPool::new(config(), objects as u64, Columns::default()).unwrap().into(),
        )),
    ];
    stores.map(|store| Subject::new(store, objects, 4096 << order))
}

struct Subject {
    store: Box<dyn Store>,
    largest: usize,
    /// For each number, the stored bytes of the object, and the object's position in `live`.
    model: Vec<Option<(Vec<u8>, usize)>>,
    live: Vec<usize>,
    versions: u64,
}

impl Subject {
    fn new(store: Box<dyn Store>, objects: usize, largest: usize) -> Self {
        Subject { store, largest, model: vec![None; objects], live: Vec::new(), versions: 0 }
    }

    fn objects(&self) -> usize {
        self.model.len()
    }

    fn put(&mut self, nth: usize, len: usize) {
        self.versions += 1;
        let bytes = stamped(self.versions, len);
        self.store.put(nth, &bytes);
        let at = self.model[nth].as_ref().map_or(self.live.len(), |(_, at)| *at);
        if at == self.live.len() {
            self.live.push(nth);
        }
        self.model[nth] = Some((bytes, at));
    }

    fn free(&mut self, nth: usize) {
        let Some((bytes, at)) = self.model[nth].take() else { return };
        self.store.expect(nth, &bytes);
        self.store.free(nth);
        self.live.swap_remove(at);
        if let Some(&moved) = self.live.get(at) {
            self.model[moved].as_mut().unwrap().1 = at;
        }
    }

    /// Stores and frees objects until the pool has `most` objects. The sizes of new objects are
    /// taken from `sizes`.
    fn shift(&mut self, rng: &mut Rng, sizes: &Sizes, most: usize) {
        for step in 0.. {
            let nth = rng.usize(..self.objects());
            match self.live.len() {
                live if live > most => self.free(self.live[rng.usize(..live)]),
                live if live < most && self.model[nth].is_none() => {
                    self.put(nth, sizes.pick(rng));
                }
                live if live == most => break,
                // Some existing objects are overwritten.
                _ if step % 4 == 0 => self.put(nth, sizes.pick(rng)),
                _ => {}
            }
            if step % 5000 == 4999 {
                self.store.check();
            }
        }
    }

    fn check(&self) {
        self.store.check();
        for &nth in &self.live {
            self.store.expect(nth, &self.model[nth].as_ref().unwrap().0);
        }
    }

    /// Calls `compact`. Asserts that the reported pages were freed. If no page is reported, moves
    /// to finer classes may have committed a few pages.
    fn compact(&self) {
        let before = self.store.used();
        let freed = self.store.compact();
        let used = self.store.used();
        assert!(
            used == before - freed || freed == 0 && used <= before + REFINED_MAX,
            "{used} {before}"
        );
        self.check();
    }

    fn free_all(&mut self) {
        while let Some(&nth) = self.live.last() {
            self.free(nth);
        }
        // A mover may have just created a zspage for an object that was then freed. The mover
        // destroys this zspage when it has finished.
        until("nothing is left after all was freed", || {
            self.store.trim();
            (self.store.used(), self.store.left().1) == (0, 0)
        });
        self.store.check();
    }
}

/// In each round the pool grows or shrinks to one of three numbers of objects, the largest of which
/// is twenty times the smallest. The sizes of the objects differ in each round.
fn classes_come_and_go(subject: &mut Subject, in_background: bool, rounds: usize, rng: &mut Rng) {
    if in_background {
        subject.store.compact_in_background();
    }
    let objects = subject.objects();
    for round in 0..rounds {
        let sizes = Sizes::any(rng, subject.largest);
        let most = [objects / 20, objects / 10, objects][rng.usize(..3)];
        subject.shift(rng, &sizes, most);
        if in_background {
            subject.check();
        } else {
            subject.compact();
        }
        if round % 6 == 5 {
            subject.free_all();
        }
    }
    let plans = subject.store.plans();
    assert!(plans > 12, "{plans} plans");
    subject.free_all();
}

#[test]
fn classes_come_and_go_and_contents_stay() {
    let seed = seed(111);
    for order in [0, 2, 4] {
        for in_background in [false, true] {
            for mut subject in subjects(order) {
                let rounds = if is_long() { 200 } else { 12 };
                println!("order {order}, in background {in_background}");
                let mut rng = Rng::with_seed(seed);
                classes_come_and_go(&mut subject, in_background, rounds, &mut rng);
            }
        }
    }
}

/// An emptied pool needs little more memory than a new pool, because only some tables are never
/// freed.
#[test]
fn an_emptied_pool_is_small() {
    for mut subject in subjects(0) {
        let empty = subject.store.left().0;
        let mut rng = Rng::with_seed(seed(112));
        let mut left = Vec::new();
        for _ in 0..4 {
            for most in [OBJECTS, OBJECTS / 20] {
                let sizes = Sizes::any(&mut rng, subject.largest);
                subject.shift(&mut rng, &sizes, most);
            }
            subject.compact();
            subject.free_all();
            subject.compact();
            left.push(subject.store.left().0);
        }
        println!("{empty} bytes when empty, {left:?} when emptied");
        // The bound allows for entries that are not freed (8 bytes each, 12 with a generation), and
        // for partly filled pages.
        assert!(left.iter().all(|&bytes| bytes < empty + 16 * OBJECTS + (32 << 10)), "{left:?}");
        assert!(left.iter().all(|&bytes| bytes < left[0] + (16 << 10)), "{left:?}");
    }
}

/// Objects that became shorter in place belong to another class, which has no zspage yet. At the
/// limit no page can be committed for the other class, so no object moves, and no zspage is left
/// after the attempt. After the limit is removed, all objects move.
#[test]
fn shortened_objects_move_to_their_class() {
    const COUNT: u32 = 400;
    let core = EntryPool::new(Config::default(), COUNT as u64, Columns::default()).unwrap();
    for index in 0..COUNT {
        let staged = core.stage(index, &stamped(index as u64, 1000)).unwrap();
        core.lock(index).unwrap().replace(staged, 0);
    }
    for index in 0..COUNT {
        let word = core.lock(index).unwrap();
        assert!(word.overwrite(&stamped(index as u64, 400), 3).is_ok());
    }
    let check = || {
        core.check();
        for index in 0..COUNT {
            let bytes = &stamped(index as u64, 400);
            assert!(core.read(index).content() == Content::Object { bytes, flags: 3 }, "{index}");
        }
    };
    let zspages = || core.classes().iter().filter(|stat| stat.obj_allocated > 0).count();
    let (used, before) = (core.pages().used(), zspages());
    core.pages().set_limit(Some(used));
    assert_eq!(core.compact(), 0);
    assert_eq!((core.pages().used(), zspages()), (used, before), "left of what was refused");
    check();
    core.pages().set_limit(None);
    assert!(core.compact() > used / 2, "{used} to {} pages", core.pages().used());
    check();
}

//! Random stores, reads, overwrites and frees against naive models, through both owners.
#![allow(clippy::unwrap_used)]

mod support;

use fastrand::Rng;
use page::RefuseNth;
use std::collections::HashMap;
use std::sync::Arc;
use support::{is_long, seed};
use zsmalloc::{
    ChainRule, ClassShape, ClassTable, Columns, Config, Content, EntryPool, Error, Geometry,
    Handle, KernelGeometry, Old, Pool,
};

/// 1 in `make test`, more in `make long`.
fn scale() -> usize {
    if is_long() { 30 } else { 1 }
}

/// Bytes that differ per object and version.
fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

/// The largest object of each class.
struct Edges(Vec<usize>);

impl Edges {
    fn new(table: &ClassTable) -> Self {
        Edges(table.classes().iter().map(|shape| shape.capacity).collect())
    }

    /// Lengths: at the edges of classes, short, long, and any.
    fn length(&self, rng: &mut Rng) -> usize {
        let max = self.0[self.0.len() - 1];
        let len = match rng.u32(0..10) {
            0..4 => rng.usize(1..=max),
            4..8 => {
                let nth = rng.usize(..self.0.len());
                beside(rng, self.0[nth])
            }
            8 => rng.usize(1..=40),
            _ => max,
        };
        len.clamp(1, max)
    }
}

/// One below, at, or one above.
fn beside(rng: &mut Rng, edge: usize) -> usize {
    edge.saturating_add_signed(rng.isize(-1..=1))
}

/// Up to `max`, often one of the ends.
fn up_to(rng: &mut Rng, max: usize) -> usize {
    if rng.bool() { rng.usize(..=max) } else { [0, 1, max.saturating_sub(1), max][rng.usize(..4)] }
}

struct Handles {
    pool: Pool,
    edges: Edges,
    live: Vec<(Handle, Vec<u8>)>,
}

impl Handles {
    fn store(&mut self, rng: &mut Rng) -> Result<(), Error> {
        let len = self.edges.length(rng);
        let data = bytes(rng, len);
        let handle = self.pool.store(&data)?;
        self.live.push((handle, data));
        Ok(())
    }

    fn free(&mut self, rng: &mut Rng) {
        let (handle, data) = self.live.swap_remove(rng.usize(..self.live.len()));
        assert_eq!(&*self.pool.read(&handle).unwrap(), data);
        let raw = handle.into_raw();
        self.pool.free(Handle::from_raw(raw).unwrap()).unwrap();
        let stale = || Handle::from_raw(raw).unwrap();
        assert_eq!(self.pool.read(&stale()).unwrap_err(), Error::Handle { raw });
        assert_eq!(self.pool.free(stale()), Err(Error::Handle { raw }));
    }

    /// Frees all there is; nothing is left.
    fn free_all(&mut self, rng: &mut Rng) {
        while !self.live.is_empty() {
            self.free(rng);
        }
        self.pool.trim();
        self.check();
        assert_eq!(self.pool.pages().used(), 0, "pages left after all was freed");
    }

    fn compact(&mut self, rng: &mut Rng) {
        let before = self.pool.pages().used();
        let freeable = self.pool.freeable();
        let total = self.pool.pages_compacted();
        let freed =
            if rng.bool() { self.pool.compact() } else { self.pool.shrink(1 << rng.u32(12..21)) };
        let compacted = self.pool.pages_compacted();
        assert!(
            compacted <= total + freed as u64,
            "{total} to {compacted} freed by moves, {freed} in all"
        );
        // A few pages more may be taken than freed, where classes with hardly an object are closed.
        let used = self.pool.pages().used();
        assert!(used == before - freed || (freed == 0 && used < before + 8), "{before} to {used}");
        if let Geometry::Kernel(_) = self.pool.table().geometry() {
            assert!(freed > 0 || freeable == 0, "{freeable} bytes were freeable");
        }
    }

    /// Writes over the first bytes of an object.
    fn write(&mut self, rng: &mut Rng) {
        let nth = rng.usize(..self.live.len());
        let (handle, data) = &mut self.live[nth];
        let len = up_to(rng, data.len()).min(data.len());
        let new = bytes(rng, len);
        self.pool.write(handle, &new).unwrap();
        data[..len].copy_from_slice(&new);
        let object = data.len();
        let long = vec![1; object + 1];
        let refused = Error::Length { len: object + 1, object };
        assert_eq!(self.pool.write(handle, &long), Err(refused));
    }

    fn step(&mut self, rng: &mut Rng, filling: bool) -> Result<(), Error> {
        match rng.u32(0..9) {
            8 if rng.u32(..40) == 0 => self.compact(rng),
            8 if !self.live.is_empty() => self.write(rng),
            0..5 if filling => self.store(rng)?,
            0..2 => self.store(rng)?,
            _ if self.live.is_empty() => {}
            7 => {
                let (handle, data) = &self.live[rng.usize(..self.live.len())];
                assert_eq!(&*self.pool.read(handle).unwrap(), data);
            }
            _ => self.free(rng),
        }
        Ok(())
    }

    fn check(&self) {
        self.pool.check();
        assert_eq!(self.pool.len() as usize, self.live.len());
        for (handle, data) in &self.live {
            assert_eq!(&*self.pool.read(handle).unwrap(), data);
        }
    }
}

fn handles(config: Config) -> Result<Handles, Error> {
    let pool = Pool::new(config)?;
    Ok(Handles { edges: Edges::new(&pool.table()), pool, live: Vec::new() })
}

/// The native geometry, the kernel's, and one with few long zspages.
fn geometries() -> [Geometry; 4] {
    let kernel = KernelGeometry::default();
    let document = KernelGeometry { chain: 16, rule: ChainRule::UsedPercent, ..kernel };
    let unmerged = KernelGeometry { chain: 1, merge: false, ..kernel };
    [
        Geometry::default(),
        Geometry::Kernel(kernel),
        Geometry::Kernel(document),
        Geometry::Kernel(unmerged),
    ]
}

fn config(geometry: Geometry) -> Config {
    Config { geometry, ..Config::default() }
}

#[test]
fn random_operations_match_the_model() {
    for (nth, geometry) in geometries().into_iter().enumerate() {
        println!("{geometry:?}");
        let mut rng = Rng::with_seed(seed(nth as u64));
        let mut subject = handles(config(geometry)).unwrap();
        for step in 0..30_000 * scale() {
            subject.step(&mut rng, step / 6000 % 2 == 0).unwrap();
            if step < 2000 || step % 1000 == 0 {
                subject.check();
            }
        }
        while !subject.live.is_empty() {
            subject.free(&mut rng);
        }
        subject.check();
        subject.pool.trim();
        subject.check();
        assert_eq!(subject.pool.pages().used(), 0, "pages left after all was freed");
    }
}

/// The entries of a device, each with an object, a payload or nothing.
struct Device {
    core: EntryPool,
    edges: Edges,
    model: HashMap<u32, (Vec<u8>, u8)>,
    inline: HashMap<u32, u64>,
}

const SLOTS: u32 = 3000;

impl Device {
    fn new(config: Config) -> Result<Self, Error> {
        let core = EntryPool::new(config, SLOTS as u64, Columns::default())?;
        let edges = Edges::new(&core.table());
        Ok(Device { core, edges, model: HashMap::new(), inline: HashMap::new() })
    }

    /// Any entry, or one at the edge of a leaf.
    fn index(rng: &mut Rng) -> u32 {
        let leaf = rng.usize(..=SLOTS as usize / 512);
        let at_edge = beside(rng, 512 * leaf) as u32;
        if rng.u32(..4) == 0 { at_edge.min(SLOTS - 1) } else { rng.u32(..SLOTS) }
    }

    fn expect_old(&self, index: u32, old: Old) {
        let expected = match self.model.get(&index) {
            Some((data, flags)) => Old::Object { len: data.len(), flags: *flags },
            None => Old::Inline(self.inline.get(&index).copied().unwrap_or(0)),
        };
        assert_eq!(old, expected, "what word {index} held");
    }

    fn write(&mut self, rng: &mut Rng, index: u32) -> Result<(), Error> {
        let len = self.edges.length(rng);
        let (data, flags) = (bytes(rng, len), rng.u8(..16));
        let old = match self.core.stage(index, &data) {
            Ok(staged) => self.core.lock(index)?.replace(staged, flags),
            Err(error) => match self.core.lock(index)?.overwrite(&data, flags) {
                Ok(old) => old,
                Err(unchanged) => {
                    drop(unchanged);
                    self.compare(index);
                    return Err(error);
                }
            },
        };
        self.expect_old(index, old);
        self.inline.remove(&index);
        self.model.insert(index, (data, flags));
        Ok(())
    }

    fn clear(&mut self, rng: &mut Rng, index: u32) -> Result<(), Error> {
        let payload = if rng.bool() { 0 } else { rng.u64(..1 << 59) };
        let old = self.core.lock(index)?.set_payload(payload);
        self.expect_old(index, old);
        self.model.remove(&index);
        self.inline.insert(index, payload);
        Ok(())
    }

    fn compare(&self, index: u32) {
        let pin = self.core.read(index);
        let expected = match self.model.get(&index) {
            Some((data, flags)) => Content::Object { bytes: data, flags: *flags },
            None => Content::Inline(self.inline.get(&index).copied().unwrap_or(0)),
        };
        assert_eq!(pin.content(), expected, "word {index}");
    }

    fn step(&mut self, rng: &mut Rng, filling: bool) -> Result<(), Error> {
        let index = Self::index(rng);
        match rng.u32(..10) {
            9 if rng.u32(..40) == 0 => drop(self.core.compact()),
            0..6 if filling => self.write(rng, index)?,
            0..2 => self.write(rng, index)?,
            2..8 => self.clear(rng, index)?,
            8 => drop(self.core.stage(index, b"never published")?),
            _ => self.compare(index),
        }
        Ok(())
    }

    fn check(&self) {
        self.core.check();
        for index in 0..SLOTS {
            self.compare(index);
        }
    }
}

/// Both geometries with objects of up to 16 and 64 KiB: blocks of several pages.
fn geometries_of_blocks() -> [Geometry; 4] {
    let kernel = |order| Geometry::Kernel(KernelGeometry { order, ..KernelGeometry::default() });
    [Geometry::Native { order: 2 }, Geometry::Native { order: 4 }, kernel(2), kernel(4)]
}

#[test]
fn objects_above_a_page_match_the_model() {
    for (geometry, largest) in geometries_of_blocks().into_iter().zip([16384, 65536].repeat(2)) {
        println!("{geometry:?}");
        let mut rng = Rng::with_seed(seed(21));
        let mut subject = handles(config(geometry)).unwrap();
        assert_eq!(subject.pool.largest(), largest);
        for step in 0..2000 * scale() {
            subject.step(&mut rng, step / 500 % 2 == 0).unwrap();
            if step % 100 == 0 {
                subject.check();
            }
        }
        subject.free_all(&mut rng);
    }
}

#[test]
fn slots_above_a_page_match_the_model() {
    for geometry in geometries_of_blocks() {
        println!("{geometry:?}");
        let mut rng = Rng::with_seed(seed(22));
        let mut device = Device::new(config(geometry)).unwrap();
        for step in 0..3000 * scale() {
            device.step(&mut rng, step / 1000 % 2 == 0).unwrap();
            if step % 500 == 0 {
                device.check();
            }
        }
        device.check();
    }
}

#[test]
fn slots_match_the_model() {
    for geometry in [geometries()[0], geometries()[1]] {
        let mut rng = Rng::with_seed(seed(11));
        let mut device = Device::new(config(geometry)).unwrap();
        for step in 0..30_000 * scale() {
            device.step(&mut rng, step / 6000 % 2 == 0).unwrap();
            if step < 2000 || step % 1000 == 0 {
                device.check();
            }
        }
        assert!(device.core.lock(SLOTS).is_err());
    }
}

/// With a limit that changes, up to `most` pages.
fn a_limit_loses_nothing(geometry: Geometry, most: usize, steps: usize) {
    let pages = page::Config { limit: Some(most), ..page::Config::default() };
    let mut device = Device::new(Config { geometry, pages }).unwrap();
    let mut rng = Rng::with_seed(seed(12));
    let mut refused = 0;
    for step in 0..steps {
        if step % 500 == 0 {
            // Anywhere, or at what is used.
            let used = beside(&mut rng, device.core.pages().used());
            let limit = if rng.bool() { used.min(most) } else { rng.usize(most / 10..=most) };
            device.core.pages().set_limit(Some(limit));
        }
        if let Err(error) = device.step(&mut rng, true) {
            assert!(error.is_limit(), "{error}");
            refused += 1;
        }
        assert!(device.core.pages().used() <= most);
        if step < steps / 10 || step % 1000 == 0 {
            device.check();
        }
    }
    assert!(refused > steps / 20, "the limit was reached {refused} times only");
}

#[test]
fn a_pool_at_its_limit_loses_nothing() {
    a_limit_loses_nothing(Geometry::default(), 200, 20_000);
    for geometry in geometries_of_blocks() {
        println!("{geometry:?}");
        a_limit_loses_nothing(geometry, 1600, 4000);
    }
}

/// An overwrite that needs no more room than the old object never fails for the limit (I6).
#[test]
fn an_overwrite_of_no_greater_length_succeeds_at_the_limit() {
    let pages = page::Config { limit: Some(64), ..page::Config::default() };
    let mut device = Device::new(Config { pages, ..Config::default() }).unwrap();
    let mut rng = Rng::with_seed(seed(13));
    let full = (0..SLOTS).find(|&index| device.write(&mut rng, index).is_err()).unwrap();
    device.core.pages().set_limit(Some(0));
    for index in 0..full {
        let (old, _) = &device.model[&index];
        let data = bytes(&mut rng, old.len());
        let word = device.core.lock(index).unwrap();
        assert!(word.overwrite(&data, 3).is_ok(), "word {index}");
        device.model.insert(index, (data, 3));
    }
    device.check();
}

/// Makes one of `make` for every request that its set-up and `work` ask for, which is refused,
/// alone or with all that follow. A refused set-up leaves nothing, and no other fails.
fn refuse_every_request<T>(
    geometry: Geometry,
    make: impl Fn(Config) -> Result<T, Error>,
    work: impl Fn(T),
) {
    for from_then_on in [false, true] {
        let make = |nth| {
            let supply = Arc::new(RefuseNth::new(nth, from_then_on));
            let pages = page::Config { supply: Some(supply.clone()), ..page::Config::default() };
            (make(Config { geometry, pages }), supply)
        };
        let (made, supply) = make(usize::MAX);
        assert!(made.is_ok());
        let setting_up = supply.requests();
        assert!(setting_up > 0, "the set-up asks for nothing");
        for nth in 1.. {
            let (made, supply) = make(nth);
            assert_eq!(made.is_err(), nth <= setting_up, "request {nth} of {setting_up}");
            made.into_iter().for_each(&work);
            if supply.requests() < nth {
                assert!(nth > setting_up + 20, "nothing was asked for after the set-up");
                break;
            }
        }
    }
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    let seed = seed(14);
    for geometry in [geometries()[0], geometries()[1]] {
        refuse_every_request(geometry, Device::new, |mut device| {
            let mut rng = Rng::with_seed(seed);
            for _ in 0..80 {
                let _ = device.step(&mut rng, true);
                device.core.check();
            }
            device.check();
        });
    }
}

#[test]
fn every_refusal_leaves_handles_as_they_were() {
    let seed = seed(16);
    for geometry in [geometries()[0], geometries()[1]] {
        refuse_every_request(geometry, handles, |mut subject| {
            let mut rng = Rng::with_seed(seed);
            for step in 0..120 {
                match step % 12 {
                    _ if subject.live.is_empty() => drop(subject.store(&mut rng)),
                    9 => subject.write(&mut rng),
                    10 => subject.free(&mut rng),
                    11 if step % 24 == 23 => {
                        (0..subject.live.len() / 2).for_each(|_| subject.free(&mut rng));
                        subject.compact(&mut rng);
                    }
                    _ => drop(subject.store(&mut rng)),
                }
                if step % 3 == 2 {
                    subject.pool.check();
                }
            }
            subject.check();
            subject.free_all(&mut rng);
        });
    }
}

/// Every size, in every slot of a zspage: all bytes of all objects are their own.
#[test]
fn every_size_fills_a_whole_zspage() {
    for geometry in [geometries()[0], geometries()[1]] {
        let pool = Pool::new(config(geometry)).unwrap();
        let fill = |nth: usize, size: usize| vec![(nth * 31 + size) as u8; size];
        for size in 1..=4096usize {
            let position = pool.table().position(size).unwrap();
            let shape = pool.table().classes()[position];
            assert!(shape.capacity >= size, "size {size} in {shape:?}");
            let handles: Vec<_> =
                (0..shape.objects).map(|nth| pool.store(&fill(nth, size)).unwrap()).collect();
            expect_full(&pool, size, shape);
            for (nth, handle) in handles.into_iter().enumerate() {
                let read = pool.read(&handle).unwrap();
                assert!(*read == fill(nth, size), "size {size} object {nth}");
                drop(read);
                pool.free(handle).unwrap();
            }
        }
        pool.trim();
        pool.check();
        assert_eq!(pool.pages().used(), 0);
    }
}

/// The objects of one size lie in its class, one full zspage; natively they may be in larger ones
/// too.
fn expect_full(pool: &Pool, size: usize, shape: ClassShape) {
    let classes = pool.classes();
    let used: Vec<_> = classes.iter().filter(|stat| stat.obj_used > 0).collect();
    let objects: u64 = used.iter().map(|stat| stat.obj_used).sum();
    assert_eq!(objects, shape.objects as u64, "size {size}");
    assert!(used.iter().all(|stat| stat.shape.size >= shape.size), "size {size}: {used:?}");
    if let Geometry::Kernel(_) = pool.table().geometry() {
        assert_eq!((used.len(), used[0].shape), (1, shape), "size {size}");
        assert_eq!(used[0].groups[11], 1, "size {size}");
        assert_eq!(used[0].groups[1..11], [0; 10], "size {size}");
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    let pool = Pool::new(Config::default()).unwrap();
    assert_eq!(pool.store(&[]), Err(Error::Size { size: 0, max: 4096 }));
    assert_eq!(pool.store(&[0; 4097]), Err(Error::Size { size: 4097, max: 4096 }));
    assert!(pool.is_empty());
    pool.check();
}

#[test]
fn foreign_and_invented_handles_are_refused() {
    let pool = Pool::new(Config::default()).unwrap();
    let other = Pool::new(Config::default()).unwrap();
    let handle = pool.store(b"mine").unwrap();
    assert!(matches!(other.read(&handle), Err(Error::Handle { .. })));
    assert!(Handle::from_raw(0).is_err());
    let mut rng = Rng::with_seed(seed(15));
    for _ in 0..100_000 {
        let raw = rng.u64(1..);
        let invented = Handle::from_raw(raw).unwrap();
        if invented != handle {
            assert_eq!(pool.free(invented), Err(Error::Handle { raw }));
        }
    }
    assert_eq!(&*pool.read(&handle).unwrap(), b"mine");
    // A cell that is used a million times accepts no handle of its earlier lives.
    let raw = handle.into_raw();
    pool.free(Handle::from_raw(raw).unwrap()).unwrap();
    for _ in 0..1_100_000 {
        let handle = pool.store(b"x").unwrap();
        assert_ne!(handle, Handle::from_raw(raw).unwrap());
        pool.free(handle).unwrap();
    }
    assert!(pool.read(&Handle::from_raw(raw).unwrap()).is_err());
    pool.check();
}

#[test]
fn threads_share_a_pool() {
    share_a_pool(0);
    share_a_pool(4);
}

/// With objects of up to 4096 << `order` bytes; fewer of large ones.
fn share_a_pool(order: u32) {
    let core =
        EntryPool::new(config(Geometry::Native { order }), 4096, Columns::default()).unwrap();
    let core = Arc::new(core);
    core.compact_in_background();
    let mut seeds = Rng::with_seed(seed(31 + order as u64));
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (core, mut rng) = (&core, seeds.fork());
            scope.spawn(move || {
                for version in 0..(20_000 >> order) * scale() as u64 {
                    let index = rng.u32(..4096);
                    if rng.bool() {
                        // The first bytes say whose this is: every reader can tell foreign bytes.
                        let stamp =
                            [(index as u64).to_le_bytes(), (thread << 32 | version).to_le_bytes()];
                        let data = stamp.concat().repeat(rng.usize(1..=256 << order));
                        let staged = core.stage(index, &data).unwrap();
                        core.lock(index).unwrap().replace(staged, 0);
                    } else if let Content::Object { bytes, .. } = core.read(index).content() {
                        let first = &bytes[..16];
                        assert_eq!(first[..8], (index as u64).to_le_bytes());
                        assert!(bytes.chunks(16).all(|chunk| chunk == first), "torn object");
                    }
                    if version % 64 == 0 {
                        core.lock(rng.u32(..4096)).unwrap().set_payload(0);
                    }
                    if version % 1000 == 0 {
                        core.compact();
                    }
                }
            });
        }
    });
    core.stop_background();
    core.check();
    for index in 0..4096 {
        core.lock(index).unwrap().set_payload(0);
    }
    core.trim();
    core.check();
    assert_eq!(core.pages().used(), 0);
}

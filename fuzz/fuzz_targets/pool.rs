//! Bytes as operations on a pool, against a map of what must be in it.
#![no_main]

mod edges;
mod input;

use arbitrary::{Result, Unstructured};
use edges::around;
use input::contents;
use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use zsmalloc::{Config, Error, Handle, Pool, ReadGuard};

struct Subject<'p> {
    pool: &'p Pool,
    /// Made when it is needed.
    foreign: OnceCell<Pool>,
    model: HashMap<u64, Vec<u8>>,
    /// The model's keys, in an order that only the input decides.
    live: Vec<u64>,
    dead: Vec<u64>,
    /// Objects that are being read; to write or free one would wait for ever.
    pins: Vec<(u64, ReadGuard<'p>)>,
    /// Whether pages may be refused other than by the limit.
    refusing: bool,
    versions: u64,
    used_max: usize,
    /// Sizes that most objects have for a while: which classes are open follows them.
    sizes: std::ops::RangeInclusive<usize>,
}

/// A handle from its number, kept in `live`: the model decides when it is used.
fn handle(raw: u64) -> Handle {
    Handle::from_raw(raw).expect("numbers of handles are not 0")
}

/// A pool whose classes are few, so that it is made fast.
fn foreign_pool() -> Pool {
    Pool::new(Config { geometry: input::geometry(1), ..Config::default() }).expect("it is possible")
}

impl<'p> Subject<'p> {
    fn fresh(&mut self, len: usize) -> Vec<u8> {
        self.versions += 1;
        contents(self.versions, len)
    }

    fn pick(&self, input: &mut Unstructured) -> Result<Option<u64>> {
        if self.live.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.live[input.choose_index(self.live.len())?]))
    }

    fn is_pinned(&self, raw: u64) -> bool {
        self.pins.iter().any(|(pinned, _)| *pinned == raw)
    }

    /// A length of those that most have, any, or one at the edge of a class.
    fn length(&self, input: &mut Unstructured) -> Result<usize> {
        let table = self.pool.table();
        let classes = table.classes();
        if input.ratio(1, 2)? {
            return input.int_in_range(self.sizes.clone());
        }
        if input.ratio(1, 2)? {
            return input.int_in_range(0..=self.pool.largest() + 2);
        }
        let class = &classes[input.choose_index(classes.len())?];
        Ok(class.capacity - 1 + input.int_in_range(0..=2)?)
    }

    fn store(&mut self, input: &mut Unstructured, zeros: bool) -> Result<()> {
        let len = self.length(input)?;
        self.store_bytes(len, zeros);
        Ok(())
    }

    fn store_bytes(&mut self, len: usize, zeros: bool) {
        let bytes = if zeros { vec![0; len] } else { self.fresh(len) };
        let stored = if zeros { self.pool.malloc(len) } else { self.pool.store(&bytes) };
        let impossible = len == 0 || len > self.pool.largest();
        match stored {
            Ok(handle) => {
                assert!(!impossible, "{len} bytes were stored");
                let raw = handle.into_raw();
                assert!(self.model.insert(raw, bytes).is_none(), "{raw:#x} was given out twice");
                self.live.push(raw);
            }
            Err(Error::Size { size, max }) => {
                assert!(impossible && (size, max) == (len, self.pool.largest()));
            }
            Err(error) => {
                assert!(!impossible || self.refusing, "{len} bytes have an error of their own");
                assert!(self.refusing || error.is_limit(), "{error}");
            }
        }
    }

    fn write(&mut self, input: &mut Unstructured) -> Result<()> {
        let Some(raw) = self.pick(input)?.filter(|&raw| !self.is_pinned(raw)) else {
            return Ok(());
        };
        let object = self.model[&raw].len();
        let len = around(input, &[1, object], object + 1)?;
        let bytes = self.fresh(len);
        let written = self.pool.write(&handle(raw), &bytes);
        if len > object {
            assert_eq!(written, Err(Error::Length { len, object }));
        } else {
            assert_eq!(written, Ok(()));
            self.model.entry(raw).and_modify(|old| old[..len].copy_from_slice(&bytes));
        }
        Ok(())
    }

    fn read(&self, raw: u64) {
        let handle = handle(raw);
        let read = self.pool.read(&handle).expect("the object is live");
        assert_eq!(&*read, self.model[&raw], "{raw:#x}");
    }

    fn free(&mut self, raw: u64) {
        self.read(raw);
        assert_eq!(self.pool.free(handle(raw)), Ok(()));
        self.model.remove(&raw);
        self.live.retain(|&live| live != raw);
        self.dead.push(raw);
    }

    /// A number that is no live object's: a freed one, another pool's, or any.
    fn bad_handle(&mut self, input: &mut Unstructured) -> Result<()> {
        let raw = match input.int_in_range(0..=3u8)? {
            0 if !self.dead.is_empty() => self.dead[input.choose_index(self.dead.len())?],
            1 => {
                let foreign = self.foreign.get_or_init(foreign_pool);
                foreign.store(b"foreign").expect("nothing refuses its pages").into_raw()
            }
            2 => match self.pick(input)? {
                Some(raw) => raw ^ 1 << input.int_in_range(0..=63u32)?,
                None => return Ok(()),
            },
            _ => input.arbitrary()?,
        };
        let refused = Error::Handle { raw };
        if raw == 0 {
            assert_eq!(Handle::from_raw(raw), Err(refused));
        } else if !self.model.contains_key(&raw) {
            assert_eq!(self.pool.read(&handle(raw)).err(), Some(refused));
            assert_eq!(self.pool.write(&handle(raw), &[]), Err(refused));
            assert_eq!(self.pool.write(&handle(raw), &[0xee; 9]), Err(refused));
            assert_eq!(self.pool.free(handle(raw)), Err(refused));
        }
        // The other pool's object goes again; any other number is none of its.
        if let Some(foreign) = self.foreign.get() {
            let _ = foreign.free(handle(raw.max(1)));
        }
        Ok(())
    }

    fn pin(&mut self, input: &mut Unstructured) -> Result<()> {
        let Some(raw) = self.pick(input)? else { return Ok(()) };
        let sharers = self.pins.iter().filter(|(pinned, _)| *pinned == raw).count();
        // A word counts 6 readers; `read` is one more for a moment.
        if sharers < 5 {
            let pool: &'p Pool = self.pool;
            // A guard borrows its handle: this one lives as long as the process, in reach of leak
            // checks.
            static HANDLES: std::sync::Mutex<Vec<&Handle>> = std::sync::Mutex::new(Vec::new());
            let handle: &'static Handle = Box::leak(Box::new(handle(raw)));
            HANDLES.lock().expect("one thread fuzzes").push(handle);
            self.pins.push((raw, pool.read(handle).expect("the object is live")));
        }
        Ok(())
    }

    fn compact(&mut self, wanted: Option<usize>) {
        let before = self.pool.pages().used();
        let total = self.pool.pages_compacted();
        let freed = match wanted {
            Some(bytes) => self.pool.shrink(bytes),
            None => self.pool.compact(),
        };
        let used = self.pool.pages().used();
        // Where classes with hardly an object are closed, a few pages more may be taken than freed.
        let is_taken = freed == 0 && (before..before + 8).contains(&used);
        assert!(used == before - freed || is_taken, "{before} to {used}, {freed} freed");
        // What was only trimmed is freed, and not by moves.
        let compacted = self.pool.pages_compacted();
        assert!(
            compacted <= total + freed as u64,
            "{total} to {compacted} freed by moves, {freed} in all ({wanted:?})"
        );
        for (raw, guard) in &self.pins {
            assert_eq!(**guard, self.model[raw], "{raw:#x} changed while it was read");
        }
    }

    fn step(&mut self, input: &mut Unstructured) -> Result<()> {
        match input.int_in_range(0..=31u8)? {
            0..=10 => self.store(input, false)?,
            11 => self.store(input, true)?,
            12..=13 => self.write(input)?,
            14..=19 => {
                if let Some(raw) = self.pick(input)?.filter(|&raw| !self.is_pinned(raw)) {
                    self.free(raw);
                }
            }
            20 => {
                if let Some(raw) = self.pick(input)? {
                    self.read(raw);
                }
            }
            21..=22 => self.bad_handle(input)?,
            23 => self.pin(input)?,
            24 if !self.pins.is_empty() => {
                let (raw, guard) = self.pins.swap_remove(input.choose_index(self.pins.len())?);
                assert_eq!(*guard, self.model[&raw]);
            }
            25 => self.compact(None),
            26 => self.compact(Some(around(input, &[0, page::page_size()], 1 << 24)?)),
            27 => {
                let before = self.pool.pages().used();
                let trimmed = self.pool.trim();
                assert_eq!(self.pool.pages().used(), before - trimmed);
            }
            28 => self.set_limit(input)?,
            29 => {
                // Many at once, so that zspages fill up.
                let len = self.length(input)?.clamp(1, self.pool.largest());
                for _ in 0..input.int_in_range(1..=120u8)? {
                    self.store_bytes(len, false);
                }
            }
            30 => {
                let every = input.int_in_range(2..=5usize)?;
                let mut going: Vec<u64> = self.live.iter().copied().step_by(every).collect();
                going.retain(|&raw| !self.is_pinned(raw));
                going.into_iter().for_each(|raw| self.free(raw));
            }
            _ if self.versions % 16 == 0 => self.statistics(),
            _ => {
                let largest = self.pool.largest();
                let middle = input.int_in_range(1..=largest)?;
                let spread = input.int_in_range(0..=400)?;
                self.sizes = middle.saturating_sub(spread).max(1)..=(middle + spread).min(largest);
            }
        }
        assert!(self.pool.pages().used() <= self.used_max, "more pages than the limit allows");
        Ok(())
    }

    fn set_limit(&mut self, input: &mut Unstructured) -> Result<()> {
        // Mostly where the next page, or the next but one, is refused.
        let used = self.pool.pages().used();
        let limit = match around(input, &[used, used + 2], 300 + used)? {
            0 => None,
            pages => Some(pages - 1),
        };
        self.pool.pages().set_limit(limit);
        self.used_max = self.pool.pages().used().max(limit.unwrap_or(usize::MAX));
        Ok(())
    }

    fn statistics(&self) {
        let classes = self.pool.classes();
        let sum: u64 = classes.iter().map(|stat| stat.obj_used).sum();
        let committed: u64 = classes.iter().map(|stat| stat.committed).sum();
        assert_eq!(sum as usize, self.model.len());
        assert_eq!(committed as usize, self.pool.pages().used());
        assert!(self.pool.bytes() >= self.pool.pages().used() * page::page_size());
        self.pool.freeable();
    }

    fn check(&self) {
        self.pool.check();
        assert_eq!(self.pool.len() as usize, self.model.len());
        let distinct: HashSet<_> = self.live.iter().collect();
        assert_eq!(distinct.len(), self.model.len());
        self.live.iter().for_each(|&raw| self.read(raw));
    }
}

fn run(input: &mut Unstructured) -> Result<()> {
    let geometry = input::geometry(input.arbitrary()?);
    let supply = input::supply(input)?;
    let refusing = supply.is_some();
    let pages = page::Config { supply, ..page::Config::default() };
    let Ok(pool) = Pool::new(Config { geometry, pages }) else {
        // A pool is made of what it may have; the geometries are all possible.
        assert!(refusing, "{geometry:?}");
        return Ok(());
    };
    let mut subject = Subject {
        pool: &pool,
        foreign: OnceCell::new(),
        model: HashMap::new(),
        live: Vec::new(),
        dead: Vec::new(),
        pins: Vec::new(),
        refusing,
        versions: 0,
        used_max: usize::MAX,
        sizes: 1..=pool.largest(),
    };
    let mut steps = 0;
    let mut ran = Ok(());
    while ran.is_ok() && !input.is_empty() {
        ran = subject.step(input);
        steps += 1;
        if steps % 64 == 0 {
            subject.check();
        }
    }
    subject.check();
    subject.pins.clear();
    while let Some(&raw) = subject.live.last() {
        subject.free(raw);
    }
    pool.trim();
    pool.check();
    let zspages: u64 = pool.classes().iter().map(|stat| stat.obj_allocated).sum();
    assert_eq!((pool.pages().used(), zspages), (0, 0), "left after all was freed");
    ran
}

fuzz_target!(|bytes: &[u8]| {
    // Input that ends amid an operation is as good as any.
    let _ = run(&mut Unstructured::new(bytes));
});

//! The caches that the experiment compares.

use std::cell::RefCell;
use std::sync::Arc;

use quick_cache::UnitWeighter;
use uzram::zcomp::Stream;
use uzram::{LruCache, LruOptions, Params, by_name};

use crate::Error;

/// The maximum length of a document in bytes.
const DOCUMENT_MAX: usize = 4096;

/// A cache whose keys are the numbers of documents.
pub(super) trait Store {
    fn put(&self, key: u64, document: &[u8]) -> Result<(), Error>;

    /// Calls `look` with document `key`, if the store has it.
    fn get(&self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Error>;

    /// Returns true if the store, to which `stored` documents were added, has evicted documents.
    fn is_full(&self, _stored: u64) -> bool {
        false
    }
}

struct Ours(LruCache<u64>);

impl Store for Ours {
    fn put(&self, key: u64, document: &[u8]) -> Result<(), Error> {
        Ok(self.0.put(key, document)?)
    }

    fn get(&self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.0.get(&key)?.iter().for_each(|document| look(document));
        Ok(())
    }

    /// The cache is full when a twentieth of the documents have been evicted. Earlier evictions do
    /// not show that the cache is full, because they can remove documents that were stored before
    /// the dictionary was trained.
    fn is_full(&self, stored: u64) -> bool {
        (self.0.len() as u64) < stored * 19 / 20
    }
}

struct Moka(moka::sync::Cache<u64, Arc<[u8]>>);

impl Store for Moka {
    fn put(&self, key: u64, document: &[u8]) -> Result<(), Error> {
        self.0.insert(key, document.into());
        Ok(())
    }

    fn get(&self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.0.get(&key).iter().for_each(|document| look(document));
        Ok(())
    }
}

struct Quick(quick_cache::sync::Cache<u64, Arc<[u8]>>);

impl Store for Quick {
    fn put(&self, key: u64, document: &[u8]) -> Result<(), Error> {
        self.0.insert(key, document.into());
        Ok(())
    }

    fn get(&self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.0.get(&key).iter().for_each(|document| look(document));
        Ok(())
    }
}

/// A moka cache with a wrapper that compresses each document.
struct Compressed {
    moka: moka::sync::Cache<u64, (usize, Arc<[u8]>)>,
    stream: RefCell<Box<dyn Stream>>,
}

impl Store for Compressed {
    fn put(&self, key: u64, document: &[u8]) -> Result<(), Error> {
        let mut out = [0; 2 * DOCUMENT_MAX];
        let len = self.stream.borrow_mut().compress(document, &mut out)?.unwrap_or_default();
        self.moka.insert(key, (document.len(), out[..len].into()));
        Ok(())
    }

    fn get(&self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let Some((len, bytes)) = self.moka.get(&key) else { return Ok(()) };
        let mut document = vec![0; len];
        self.stream.borrow_mut().decompress(&bytes, &mut document)?;
        look(&document);
        Ok(())
    }
}

pub(super) const SIDES: [&str; 4] =
    ["LruCache", "moka", "quick_cache", "moka of documents compressed by zstd"];
/// The rivals that do not compress documents. The ratio of the numbers of documents is checked only
/// for these rivals.
pub(super) const PLAIN: [usize; 2] = [1, 2];

/// Returns an empty store for the side `side`.
pub(super) fn store(side: usize, limit: u64) -> Result<Box<dyn Store>, Error> {
    Ok(match side {
        0 => Box::new(Ours(LruCache::new(LruOptions::new(limit as usize))?)),
        1 => Box::new(Moka(moka::sync::Cache::new(u64::MAX))),
        2 => Box::new(Quick(quick_cache::sync::Cache::with_weighter(
            1024,
            u64::from(u32::MAX),
            UnitWeighter,
        ))),
        _ => {
            let prepared = by_name("zstd")?.prepare(&Params::default(), DOCUMENT_MAX)?;
            let stream = RefCell::new(prepared.stream()?);
            Box::new(Compressed { moka: moka::sync::Cache::new(u64::MAX), stream })
        }
    })
}

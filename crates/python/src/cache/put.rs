//! Storing of values.

use super::ask::{Asked, judge, key_bytes};
use super::{Cache, DETACHED_FROM, Key};
use crate::buffer::with_bytes;
use crate::error::{Answer, value_error};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::Ordering::Relaxed;
use uzram::lru::Error;
use uzram::lru::raw::{Departed, Offer, Packed, Put, Verdicts};

/// Returns a copy of `bytes`, because data that another thread may change must not be compressed
/// directly.
fn copied(bytes: &[u8]) -> Answer<Vec<u8>> {
    let mut copy = Vec::new();
    let reserved = copy.try_reserve_exact(bytes.len());
    reserved.map_err(|_| Error::NoMemory { bytes: bytes.len() })?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl Cache {
    /// Stores a value; an existing value of the key is kept unless `replaces` is set. Returns true
    /// if the new value was stored.
    pub(super) fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        replaces: bool,
    ) -> Answer<bool> {
        let py = key.py();
        let asked = Asked::new(key)?;
        let value = if self.pickles {
            // -1 selects the highest protocol of pickle.
            py.import(intern!(py, "pickle"))?.call_method1(intern!(py, "dumps"), (value, -1))?
        } else {
            value.clone()
        };
        // The contents of a `bytes` object never change. Data that may change are copied first.
        match value.cast_exact::<PyBytes>() {
            Ok(bytes) => self.put_bytes(&asked, bytes.as_bytes(), replaces),
            Err(_) => self.put_bytes(&asked, &with_bytes(&value, copied)??, replaces),
        }
    }

    /// Stores the items of a mapping, or pairs.
    pub(super) fn put_all(&self, other: &Bound<'_, PyAny>) -> Answer<()> {
        let py = other.py();
        if let Ok(cache) = other.cast::<Cache>() {
            let cache = cache.get();
            for key in cache.all_keys(py)? {
                // The value may have been evicted since the key was listed.
                if let Some(value) = cache.find(&key, false)? {
                    self.put(&key, &value, true)?;
                }
            }
        } else if other.hasattr(intern!(py, "keys"))? {
            for key in other.call_method0(intern!(py, "keys"))?.try_iter()? {
                let key = key?;
                self.put(&key, &other.get_item(&key)?, true)?;
            }
        } else {
            for pair in other.try_iter()? {
                // A pair may be any iterable of two elements, as for a dict.
                let pair = pair?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
                let Ok([key, value]) = <[_; 2]>::try_from(pair) else {
                    return Err(value_error("a pair of key and value has two elements"));
                };
                self.put(&key, &value, true)?;
            }
        }
        Ok(())
    }

    fn put_bytes(&self, asked: &Asked<'_, '_>, bytes: &[u8], replaces: bool) -> Answer<bool> {
        let key = asked.key;
        let mut offer = Some(Offer {
            key: key.clone().unbind(),
            key_bytes: key_bytes(key),
            packed: self.pack(key.py(), bytes)?,
        });
        if !asked.is_plain {
            self.has_containers.store(true, Relaxed);
        }
        let mut out = Departed::default();
        let mut verdicts = Verdicts { replaces, ..Verdicts::default() };
        let put = self.put_offer(asked, &mut verdicts, (bytes, &mut offer), &mut out);
        self.depart(key.py(), out);
        put
    }

    fn pack(&self, py: Python<'_>, bytes: &[u8]) -> Answer<Packed> {
        Ok(match bytes.len() < DETACHED_FROM {
            true => self.kept.pack(bytes),
            false => py.detach(|| self.kept.pack(bytes)),
        }?)
    }

    fn put_offer(
        &self,
        asked: &Asked<'_, '_>,
        verdicts: &mut Verdicts,
        (bytes, offer): (&[u8], &mut Option<Offer<Key>>),
        out: &mut Departed<Key>,
    ) -> Answer<bool> {
        let py = asked.key.py();
        loop {
            let compare = |_: &Key, kept: &Key| asked.compare(kept);
            match self.kept.put(asked.hash, &compare, verdicts, offer, out)? {
                Put::Done(None) => return Ok(true),
                Put::There => return Ok(false),
                Put::Done(Some(due)) => {
                    py.detach(|| self.kept.learn(due, out));
                    return Ok(true);
                }
                Put::Stale => {
                    let packed = self.pack(py, bytes)?;
                    if let Some(offer) = offer {
                        offer.packed = packed;
                    }
                }
                Put::Ask(unknown) => judge(asked.key, unknown, verdicts)?,
            }
        }
    }
}

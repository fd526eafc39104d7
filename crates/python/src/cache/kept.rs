//! Python's keys and values on top of [`RawLruCache`].
//!
//! Python code may run when a key is compared, hashed or dropped. The Python code may call the
//! cache again, and lets other threads run. So no key is compared, hashed or dropped under the
//! cache's lock. A thread that holds the lock never waits for the interpreter. A thread that holds
//! the lock or waits for the lock can be attached to the interpreter, or detached.

use super::ask::{Asked, judge, key_bytes};
use super::same::Key;
use crate::buffer::with_bytes;
use crate::error::{Answer, Failure};
use crate::policy::DETACHED_FROM;
use crate::shared::lock;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use uzram::lru::Error;
use uzram::lru::raw::{Compare, Departed, Found, Offer, Packed, Put, RawLruCache, Verdicts};

/// The values of a cache.
pub(super) struct Kept {
    pub(super) raw: Arc<RawLruCache<Key>>,
    pub(super) pickles: bool,
    pub(super) on_evict: Mutex<Option<Py<PyAny>>>,
    /// Whether a key may be part of a reference cycle. Keys of the types `str`, `bytes`, `int` and
    /// `float` are never part of a cycle.
    pub(super) has_containers: AtomicBool,
}

/// Returns a copy of `bytes`. Data that another thread can change must not be compressed directly.
fn copied(bytes: &[u8]) -> Answer<Vec<u8>> {
    let mut copy = Vec::new();
    let reserved = copy.try_reserve_exact(bytes.len());
    reserved.map_err(|_| Error::NoMemory { bytes: bytes.len() })?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Calls `work` on a value of `bytes` bytes. During long work, other Python threads can run.
fn work<T: Send>(py: Python<'_>, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if bytes < DETACHED_FROM { work() } else { py.detach(work) }
}

impl Kept {
    /// Repeats `call` until the key has been compared with all keys that have its hash.
    pub(super) fn ask<T>(
        key: &Bound<'_, PyAny>,
        mut call: impl FnMut(u32, Compare<'_, Key>, &Verdicts) -> Found<T, Key>,
    ) -> PyResult<Option<T>> {
        let (asked, mut verdicts) = (Asked::new(key)?, Verdicts::default());
        loop {
            match call(asked.hash, &|kept| asked.compare(kept), &verdicts) {
                Found::Yes(value) => return Ok(Some(value)),
                Found::No => return Ok(None),
                Found::Ask(unknown) => judge(key, unknown, &mut verdicts)?,
            }
        }
    }

    /// Returns a value in the form in which it was stored, unpickled if it was pickled.
    pub(super) fn value<'py>(&self, py: Python<'py>, packed: &Packed) -> Answer<Bound<'py, PyAny>> {
        let bytes = PyBytes::new_with(py, packed.len, |out| {
            let unpacked = work(py, packed.len, || packed.unpack(out));
            unpacked.map_err(|error| Failure::from(error).into())
        })?;
        if !self.pickles {
            return Ok(bytes.into_any());
        }
        Ok(py.import(intern!(py, "pickle"))?.call_method1(intern!(py, "loads"), (bytes,))?)
    }

    pub(super) fn find<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        touches: bool,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        let found = Self::ask(key, |hash, compare, verdicts| {
            self.raw.get(hash, compare, verdicts, touches)
        })?;
        found.map(|(_, packed)| self.value(key.py(), &packed?)).transpose()
    }

    /// Removes the value of a key, and returns the value. The value is unpickled before its
    /// removal.
    pub(super) fn take<'py>(&self, key: &Bound<'py, PyAny>) -> Answer<Option<Bound<'py, PyAny>>> {
        loop {
            let call = |hash, compare: Compare<'_, Key>, verdicts: &Verdicts| {
                self.raw.get(hash, compare, verdicts, false)
            };
            let Some((id, packed)) = Self::ask(key, call)? else { return Ok(None) };
            let value = self.value(key.py(), &packed?)?;
            // Another thread may have changed the cache after this thread found the value.
            if self.raw.remove_same(id, &mut Departed::default()) {
                return Ok(Some(value));
            }
        }
    }

    /// Calls `on_evict` for evicted values, and drops all keys and values that were removed from
    /// the cache.
    fn depart(&self, py: Python<'_>, out: Departed<Key>) {
        if out.evicted.is_empty() {
            return;
        }
        let on_evict = lock(&self.on_evict).as_ref().map(|call| call.clone_ref(py));
        let Some(on_evict) = on_evict else { return };
        for (key, packed) in out.evicted {
            let told = self.value(py, &packed).map_err(PyErr::from);
            let told = told.and_then(|value| on_evict.call1(py, (key, value)));
            if let Err(error) = told {
                error.write_unraisable(py, Some(on_evict.bind(py)));
            }
        }
    }

    /// Returns the keys, the least recently used first.
    pub(super) fn all_keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut keys = Vec::with_capacity(self.raw.len());
        self.raw.for_each_key(|key| keys.push(key.clone_ref(py)));
        PyList::new(py, keys)
    }

    /// Stores a value. An existing value of the key is replaced only if `replaces` is set. Returns
    /// true if the new value was stored.
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
        // The contents of a `bytes` object never change. Data that other threads can change are
        // copied first.
        match value.cast_exact::<PyBytes>() {
            Ok(bytes) => self.put_bytes(&asked, bytes.as_bytes(), replaces),
            Err(_) => self.put_bytes(&asked, &with_bytes(&value, copied)??, replaces),
        }
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
        Ok(work(py, bytes.len(), || self.raw.pack(bytes))?)
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
            match self.raw.put(asked.hash, &compare, verdicts, bytes, offer, out)? {
                Put::Done(None) => return Ok(true),
                Put::There => return Ok(false),
                Put::Done(Some(due)) => {
                    py.detach(|| self.raw.learn(due, out));
                    return Ok(true);
                }
                Put::Ask(unknown) => judge(asked.key, unknown, verdicts)?,
            }
        }
    }
}

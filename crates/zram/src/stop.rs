//! Why a request stops before its end: it failed, or what it needs lies in the backing store. Then
//! it gives up its locks and its stream, which it may have to wait long without, and goes on where
//! it was with the object in hand.

use crate::Error;
use crate::cold::{BackingPlace, PlaceGuard, ReadBack};
use crate::request::Request;
use crate::stats::Counter;
use crate::table::Table;
use zsmalloc::{Content, Row};

/// Why a request stops.
#[derive(Debug)]
pub(crate) enum Blocked {
    Failed(Error),
    OnBacking(PlaceGuard),
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Blocked::Failed(error)
    }
}

impl Blocked {
    /// Counts it, if it is a failure.
    pub(crate) fn count_failure(&self, failures: &Counter) {
        if let Blocked::Failed(_) = self {
            failures.add(1);
        }
    }
}

/// Does `work`, which goes on from `done` bytes, as often as it takes.
pub(crate) fn until_done(
    table: &Table,
    mut work: impl FnMut(&mut Request<'_>) -> Result<(), Blocked>,
) -> Result<(), Error> {
    let (mut done, mut read_back) = (0, Vec::new());
    loop {
        let mut request = Request::begin(table);
        (request.done, request.read_back) = (done, &read_back);
        let stopped = work(&mut request);
        let reached = request.done;
        drop(request);
        let guard = match stopped {
            Ok(()) => return Ok(()),
            Err(Blocked::Failed(error)) => return Err(error),
            Err(Blocked::OnBacking(guard)) => guard,
        };
        // A block can need several: its object, and slots that are beside it.
        if reached > done {
            read_back.clear();
            done = reached;
        }
        let slot = table.shared.layout.slot_of(guard.entry);
        read_back.push(guard.read(slot)?);
    }
}

impl<'t> Request<'t> {
    /// What an entry holds that is locked, if its sum is right: where that is away, what was read
    /// back of it, or the request stops.
    #[inline]
    pub(crate) fn resolve<'c>(
        &self,
        entry: u32,
        content: Content<'c>,
        row: Option<Row<'_>>,
    ) -> Result<Content<'c>, Blocked>
    where
        't: 'c,
    {
        self.table.resolve(entry, content, row, self.read_back)
    }
}

impl Table {
    /// What an entry holds that is locked, if its sum is right: where that is away, what of it is
    /// among `read_back`.
    #[inline]
    pub(crate) fn resolve<'c>(
        &self,
        entry: u32,
        content: Content<'c>,
        row: Option<Row<'_>>,
        read_back: &'c [ReadBack],
    ) -> Result<Content<'c>, Blocked> {
        match content {
            Content::Inline(payload) => match BackingPlace::from_payload(payload) {
                Some(place) => self.resolve_backed(entry, place, read_back),
                None => Ok(content),
            },
            Content::Object { .. } => {
                self.verify(entry, content, row)?;
                Ok(content)
            }
        }
    }

    #[cold]
    fn resolve_backed<'f>(
        &self,
        entry: u32,
        place: BackingPlace,
        read_back: &'f [ReadBack],
    ) -> Result<Content<'f>, Blocked> {
        let is_it = |read_back: &&ReadBack| {
            (read_back.guard.entry, read_back.guard.place) == (entry, place)
        };
        match (read_back.iter().find(is_it), &self.shared.store) {
            (Some(read_back), _) => {
                Ok(Content::Object { bytes: &read_back.bytes, flags: place.priority })
            }
            (None, Some(store)) => Err(Blocked::OnBacking(store.guard_place(place, entry))),
            (None, None) => Err(Error::NoBacking.into()),
        }
    }
}

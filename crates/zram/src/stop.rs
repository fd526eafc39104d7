//! Why a request stops before its end: it failed, or what it needs lies in the backing store. Then it gives up its
//! locks and its stream, which it may have to wait long without, and goes on where it was with the object in hand.

use crate::Error;
use crate::cold::{Away, Fetched, Place};
use crate::request::Request;
use crate::stat::Counter;
use crate::table::Table;
use zsmalloc::{BesideSlot, Content};

/// Why a request stops.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(Error),
    Away(Away),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

impl Stop {
    /// Counts it, if it is a failure.
    pub(crate) fn count(&self, failures: &Counter) {
        if let Stop::Failed(_) = self {
            failures.add(1);
        }
    }
}

/// Does `work`, which goes on from `done` bytes, as often as it takes.
pub(crate) fn run<E: BesideSlot>(
    table: &Table<E>,
    mut work: impl FnMut(&mut Request<'_, E>) -> Result<(), Stop>,
) -> Result<(), Error> {
    let (mut done, mut fetched) = (0, Vec::new());
    loop {
        let mut request = Request::begin(table);
        (request.done, request.fetched) = (done, &fetched);
        let stopped = work(&mut request);
        let reached = request.done;
        drop(request);
        let away = match stopped {
            Ok(()) => return Ok(()),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Away(away)) => away,
        };
        // A block can need several: its object, and slots that are beside it.
        if reached > done {
            fetched.clear();
            done = reached;
        }
        let slot = table.shared.layout.slot_of(away.word);
        fetched.push(away.fetch(slot)?);
    }
}

impl<'t, E: BesideSlot> Request<'t, E> {
    /// What a word holds that is locked, if its sum is right: where that is away, what was fetched of it, or the request stops.
    #[inline]
    pub(crate) fn here<'c>(
        &self,
        word: u32,
        content: Content<'c>,
        beside: Option<&E>,
    ) -> Result<Content<'c>, Stop>
    where
        't: 'c,
    {
        self.table.here(word, content, beside, self.fetched)
    }
}

impl<E: BesideSlot> Table<E> {
    /// What a word holds that is locked, if its sum is right: where that is away, what of it is among `fetched`.
    #[inline]
    pub(crate) fn here<'c>(
        &self,
        word: u32,
        content: Content<'c>,
        beside: Option<&E>,
        fetched: &'c [Fetched],
    ) -> Result<Content<'c>, Stop> {
        match content {
            Content::Inline(payload) => match Place::from_payload(payload) {
                Some(place) => self.fetched_of(word, place, fetched),
                None => Ok(content),
            },
            Content::Object { .. } => {
                self.verify(word, content, beside)?;
                Ok(content)
            }
        }
    }

    #[cold]
    fn fetched_of<'f>(
        &self,
        word: u32,
        place: Place,
        fetched: &'f [Fetched],
    ) -> Result<Content<'f>, Stop> {
        let is_it = |fetched: &&Fetched| (fetched.away.word, fetched.away.place) == (word, place);
        match (fetched.iter().find(is_it), &self.shared.store) {
            (Some(fetched), _) => {
                Ok(Content::Object { bytes: &fetched.bytes, flags: place.priority })
            }
            (None, Some(store)) => Err(Stop::Away(store.hold(place, word))),
            (None, None) => Err(Error::NoBacking.into()),
        }
    }
}

//! The slabs that are a thread's own: how it takes and frees in them, comes by them and gives them up.
//!
//! Who is in a function with a magazine is its thread (sl-M1), so he may work in its slabs (sl-K3).
//! A slab that the lock is held for, and that no thread owns, becomes the thread's in `claim` and
//! `adopt`, and no one's in `release`.

use crate::Error;
use crate::depot::{Depot, State};
use crate::held::Held;
use crate::layout::Layout;
use crate::lists::List;
use crate::magazine::{Magazine, Own, Put, Tunables};
use crate::thread::{Number, number};
use page::ExtentId;
use std::ptr::NonNull;

impl Depot {
    /// An object of the thread's current word, if there is one.
    #[inline]
    pub(crate) fn take_at_once(&self, number: Number) -> Option<NonNull<u8>> {
        self.magazines.own(number)?.take()
    }

    /// Frees an object of the thread's own slabs, if it is found at once.
    #[inline]
    pub(crate) fn put_at_once(&self, number: Number, object: NonNull<u8>) -> bool {
        let Some(magazine) = self.magazines.own(number) else { return false };
        match magazine.put(object) {
            Put::Done => {}
            Put::Over => self.trim(magazine),
            Put::Not => return false,
        }
        true
    }

    /// Frees an object of a slab that is the calling thread's; false where it is free.
    pub(crate) fn free_own(&self, magazine: &Magazine, id: ExtentId, index: usize) -> bool {
        // The slab is the calling thread's (sl-K3).
        let held = self.held(id);
        if !held.put(index) {
            return false;
        }
        self.note_near(magazine, held);
        magazine.set_kept(magazine.kept() + 1);
        if magazine.is_over() {
            self.trim(magazine);
        }
        true
    }

    fn note_near(&self, magazine: &Magazine, held: Held<'_>) {
        if self.shape.layout == Layout::Native {
            magazine.set_near(held.object(0).addr().get(), held.slab.bits(&self.shape).live);
        }
    }

    /// An object from where there is one, in a slab that becomes the thread's if it may have any.
    pub(crate) fn take(&self) -> Result<NonNull<u8>, Error> {
        let number = number();
        let Some(magazine) = self.magazines.make(number, &self.shape) else {
            return self.take_shared();
        };
        loop {
            let current = magazine.with(|own| own.current);
            if let Some(object) = current.and_then(|id| self.take_own(magazine, id)) {
                return Ok(object);
            }
            self.refill(magazine, number)?;
        }
    }

    /// An object of the thread's current slab.
    fn take_own(&self, magazine: &Magazine, id: ExtentId) -> Option<NonNull<u8>> {
        // The slab is the calling thread's (sl-K3).
        let held = self.held(id);
        if self.shape.layout == Layout::Native {
            let bits = held.slab.bits(&self.shape);
            let word = bits.next_word(magazine.word_of(&bits))?;
            magazine.set_word(&bits, held.object(0), word);
            return magazine.take();
        }
        let object = held.take().map(|index| held.object(index))?;
        magazine.set_kept(magazine.kept() - 1);
        Some(object)
    }

    /// Makes a slab with free objects the thread's current one.
    fn refill(&self, magazine: &Magazine, number: Number) -> Result<(), Error> {
        if let Some(id) = magazine.with(|own| own.current) {
            // The thread's, so it may work there (sl-K3).
            let found = self.held(id).collect();
            if found > 0 {
                magazine.set_kept(magazine.kept() + found as u32);
                return Ok(());
            }
        }
        let mut state = self.state();
        if let Some(id) = magazine.with(|own| own.current) {
            self.release(&mut state, magazine, id);
        }
        let lists = &state.lists;
        let shared = || lists.first(List::Partial).or_else(|| lists.first(List::Free));
        let id = match magazine.with(|own| own.head).or_else(shared) {
            Some(id) if List::of_slab(self.held(id).slab) == List::Apart => id,
            Some(id) => {
                self.recommit(id)?;
                self.claim(&mut state, magazine, number, id);
                id
            }
            None => {
                drop(state);
                let id = self.make()?;
                self.adopt(&mut self.state(), magazine, number, id);
                id
            }
        };
        magazine.with(|own| own.current = Some(id));
        Ok(())
    }

    /// Makes a slab that is in a list the thread's. The lock is held (sl-K3).
    pub(crate) fn claim(
        &self,
        state: &mut State,
        magazine: &Magazine,
        number: Number,
        id: ExtentId,
    ) {
        state.lists.unlink(id, |id| self.held(id));
        self.adopt(state, magazine, number, id);
    }

    /// Makes a slab that is in no list, or was just made, the thread's, the first of them. The lock is held.
    fn adopt(&self, state: &mut State, magazine: &Magazine, number: Number, id: ExtentId) {
        let held = self.held(id);
        self.settle(id, number.raw());
        state.owned += 1;
        let free = self.shape.objects - held.active();
        magazine.set_kept(magazine.kept() + free as u32);
        self.note_near(magazine, held);
        magazine.with(|own| {
            held.set_links(None, own.head);
            match own.head {
                Some(head) => self.held(head).set_prev(Some(id)),
                None => own.tail = Some(id),
            }
            own.head = Some(id);
        });
    }

    /// Makes a slab of the thread's no one's. The lock is held.
    fn release(&self, state: &mut State, magazine: &Magazine, id: ExtentId) {
        let held = self.held(id);
        magazine.with(|own| {
            let (prev, next) = (held.prev(), held.next());
            match prev {
                Some(prev) => self.held(prev).set_next(next),
                None => own.head = next,
            }
            match next {
                Some(next) => self.held(next).set_prev(prev),
                None => own.tail = prev,
            }
            if own.current == Some(id) {
                own.current = None;
                magazine.forget_word();
            }
        });
        magazine.forget_near(held.object(0).addr().get());
        held.recount();
        let free = self.shape.objects - held.active();
        magazine.set_kept(magazine.kept() - free as u32);
        held.slab.bits(&self.shape).give_up();
        // No one's, and the lock is held: sl-K3 again.
        held.collect();
        state.owned -= 1;
        state.lists.link(id, List::of(held, &self.shape), |id| self.held(id));
    }

    /// Gives the thread's oldest slabs up, as long as it keeps too much; all, if someone asked.
    pub(crate) fn trim(&self, magazine: &Magazine) {
        let Tunables { limit, batchcount } = self.magazines.tunables();
        let most = if magazine.is_asked() { 0 } else { limit - batchcount };
        magazine.set_limit(limit);
        let mut state = self.state();
        while magazine.kept() > most
            && let Some(id) = magazine.with(|own: &mut Own| own.tail)
        {
            self.release(&mut state, magazine, id);
        }
        self.end(state);
    }

    /// Gives up all slabs of a thread, or of one that is no more.
    pub(crate) fn drain(&self, magazine: &Magazine) {
        let mut state = self.state();
        self.release_all(&mut state, magazine);
        self.end(state);
    }

    /// Makes all slabs of a thread, or of one that is no more, no one's. The lock is held.
    pub(crate) fn release_all(&self, state: &mut State, magazine: &Magazine) {
        while let Some(id) = magazine.with(|own| own.head) {
            self.release(state, magazine, id);
        }
    }
}

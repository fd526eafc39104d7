//! The slabs that are a thread's own: how it takes and frees in them, comes by them and gives them
//! up.
//!
//! Who is in a function with a thread's slabs is that thread (sl-M1), so he may work in its slabs
//! (sl-K3). A slab that the lock is held for, and that no thread owns, becomes the thread's in
//! `own_listed` and `own`, and no one's in `disown`.

use crate::Error;
use crate::depot::{Depot, State};
use crate::layout::Layout;
use crate::lists::List;
use crate::slab_ref::SlabRef;
use crate::thread::{Number, number};
use crate::thread_slabs::{FastFree, Own, ThreadSlabs, Tunables};
use page::ExtentId;
use std::ptr::NonNull;

impl Depot {
    /// An object of the thread's current word, if there is one.
    #[inline]
    pub(crate) fn alloc_fast(&self, number: Number) -> Option<NonNull<u8>> {
        self.threads.of(number)?.alloc()
    }

    /// Frees an object of the thread's own slabs, if a hint tells of it.
    #[inline]
    pub(crate) fn free_fast(&self, number: Number, object: NonNull<u8>) -> bool {
        let Some(thread_slabs) = self.threads.of(number) else { return false };
        match thread_slabs.free(object) {
            FastFree::Done => {}
            FastFree::OverLimit => self.trim(thread_slabs),
            FastFree::Miss => return false,
        }
        true
    }

    /// Frees an object of a slab that is the calling thread's; false where it is free.
    pub(crate) fn free_own(&self, thread_slabs: &ThreadSlabs, id: ExtentId, index: usize) -> bool {
        // The slab is the calling thread's (sl-K3).
        let slab_ref = self.slab_ref(id);
        if !slab_ref.free(index) {
            return false;
        }
        self.set_hint(thread_slabs, slab_ref);
        thread_slabs.set_kept(thread_slabs.kept() + 1);
        if thread_slabs.is_over() {
            self.trim(thread_slabs);
        }
        true
    }

    fn set_hint(&self, thread_slabs: &ThreadSlabs, slab_ref: SlabRef<'_>) {
        if self.shape.layout == Layout::Native {
            thread_slabs
                .set_hint(slab_ref.object(0).addr().get(), slab_ref.slab.bits(&self.shape).live);
        }
    }

    /// An object from where there is one, in a slab that becomes the thread's if it may have any.
    pub(crate) fn alloc(&self) -> Result<NonNull<u8>, Error> {
        let number = number();
        let Some(thread_slabs) = self.threads.make(number, &self.shape) else {
            return self.alloc_shared();
        };
        loop {
            let current = thread_slabs.with(|own| own.current);
            if let Some(object) = current.and_then(|id| self.alloc_own(thread_slabs, id)) {
                return Ok(object);
            }
            self.refill(thread_slabs, number)?;
        }
    }

    /// An object of the thread's current slab.
    fn alloc_own(&self, thread_slabs: &ThreadSlabs, id: ExtentId) -> Option<NonNull<u8>> {
        // The slab is the calling thread's (sl-K3).
        let slab_ref = self.slab_ref(id);
        if self.shape.layout == Layout::Native {
            let bits = slab_ref.slab.bits(&self.shape);
            let word = bits.next_word(thread_slabs.word_of(&bits))?;
            thread_slabs.set_word(&bits, slab_ref.object(0), word);
            return thread_slabs.alloc();
        }
        let object = slab_ref.alloc().map(|index| slab_ref.object(index))?;
        thread_slabs.set_kept(thread_slabs.kept() - 1);
        Some(object)
    }

    /// Makes a slab with free objects the thread's current one.
    fn refill(&self, thread_slabs: &ThreadSlabs, number: Number) -> Result<(), Error> {
        if let Some(id) = thread_slabs.with(|own| own.current) {
            // The thread's, so it may work there (sl-K3).
            let found = self.slab_ref(id).drain_remote();
            if found > 0 {
                thread_slabs.set_kept(thread_slabs.kept() + found as u32);
                return Ok(());
            }
        }
        let mut state = self.state();
        if let Some(id) = thread_slabs.with(|own| own.current) {
            self.disown(&mut state, thread_slabs, id);
        }
        let lists = &state.lists;
        let shared = || lists.first(List::Partial).or_else(|| lists.first(List::Free));
        let id = match thread_slabs.with(|own| own.head).or_else(shared) {
            Some(id) if List::of_slab(self.slab_ref(id).slab) == List::Unlisted => id,
            Some(id) => {
                self.recommit(id)?;
                self.own_listed(&mut state, thread_slabs, number, id);
                id
            }
            None => {
                drop(state);
                let id = self.make()?;
                self.own(&mut self.state(), thread_slabs, number, id);
                id
            }
        };
        thread_slabs.with(|own| own.current = Some(id));
        Ok(())
    }

    /// Makes a slab that is in a list the thread's. The lock is held (sl-K3).
    pub(crate) fn own_listed(
        &self,
        state: &mut State,
        thread_slabs: &ThreadSlabs,
        number: Number,
        id: ExtentId,
    ) {
        state.lists.unlink(id, |id| self.slab_ref(id));
        self.own(state, thread_slabs, number, id);
    }

    /// Makes a slab that is in no list, or was just made, the thread's, the first of them. The lock
    /// is held.
    fn own(&self, state: &mut State, thread_slabs: &ThreadSlabs, number: Number, id: ExtentId) {
        let slab_ref = self.slab_ref(id);
        self.attach(id, number.raw());
        state.owned += 1;
        let free = self.shape.objects - slab_ref.active();
        thread_slabs.set_kept(thread_slabs.kept() + free as u32);
        self.set_hint(thread_slabs, slab_ref);
        thread_slabs.with(|own| {
            slab_ref.set_links(None, own.head);
            match own.head {
                Some(head) => self.slab_ref(head).set_prev(Some(id)),
                None => own.tail = Some(id),
            }
            own.head = Some(id);
        });
    }

    /// Makes a slab of the thread's no one's. The lock is held.
    fn disown(&self, state: &mut State, thread_slabs: &ThreadSlabs, id: ExtentId) {
        let slab_ref = self.slab_ref(id);
        thread_slabs.with(|own| {
            let (prev, next) = (slab_ref.prev(), slab_ref.next());
            match prev {
                Some(prev) => self.slab_ref(prev).set_next(next),
                None => own.head = next,
            }
            match next {
                Some(next) => self.slab_ref(next).set_prev(prev),
                None => own.tail = prev,
            }
            if own.current == Some(id) {
                own.current = None;
                thread_slabs.forget_word();
            }
        });
        thread_slabs.forget_hint(slab_ref.object(0).addr().get());
        slab_ref.recount();
        let free = self.shape.objects - slab_ref.active();
        thread_slabs.set_kept(thread_slabs.kept() - free as u32);
        slab_ref.slab.bits(&self.shape).orphan();
        // No one's, and the lock is held: sl-K3 again.
        slab_ref.drain_remote();
        state.owned -= 1;
        state.lists.link(id, List::of(slab_ref, &self.shape), |id| self.slab_ref(id));
    }

    /// Gives the thread's oldest slabs up, as long as it keeps too much; all, if someone asked.
    pub(crate) fn trim(&self, thread_slabs: &ThreadSlabs) {
        let Tunables { limit, batchcount } = self.threads.tunables();
        let most = if thread_slabs.is_asked() { 0 } else { limit - batchcount };
        thread_slabs.set_limit(limit);
        let mut state = self.state();
        while thread_slabs.kept() > most
            && let Some(id) = thread_slabs.with(|own: &mut Own| own.tail)
        {
            self.disown(&mut state, thread_slabs, id);
        }
        self.end(state);
    }

    /// Gives up all slabs of a thread, or of one that is no more.
    pub(crate) fn disown_all_and_end(&self, thread_slabs: &ThreadSlabs) {
        let mut state = self.state();
        self.disown_all(&mut state, thread_slabs);
        self.end(state);
    }

    /// Makes all slabs of a thread, or of one that is no more, no one's. The lock is held.
    pub(crate) fn disown_all(&self, state: &mut State, thread_slabs: &ThreadSlabs) {
        while let Some(id) = thread_slabs.with(|own| own.head) {
            self.disown(state, thread_slabs, id);
        }
    }
}

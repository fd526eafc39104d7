//! Loom models of a chunk that is closed while one of its blocks is touched. `make loom` runs them.
#![allow(unsafe_code)]

use super::*;
use crate::state::{BlockWord, State};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A chunk of one block. Two threads are allowed to change the chunk's memory: the thread that set
/// the chunk's word to changing, and, while the chunk is open, the block's owner.
struct Scene {
    chunk: ChunkWord,
    block: BlockWord,
    /// Whether the chunk's memory is accessible, and whether the block is present.
    memory: UnsafeCell<(bool, bool)>,
}

impl Scene {
    fn change(&self, change: impl FnOnce(&mut (bool, bool))) {
        // SAFETY: loom provides the pointer and checks the access.
        self.memory.with_mut(|memory| unsafe { change(&mut *memory) });
    }

    fn open(&self) {
        loop {
            match self.chunk.load() {
                Chunk::Open => return,
                Chunk::Changing => self.chunk.wait(),
                seen if self.chunk.try_begin(seen) => {
                    self.change(|memory| *memory = (true, false));
                    self.chunk.end(Chunk::Open);
                }
                _ => {}
            }
        }
    }

    fn touch(&self) {
        loop {
            let seen = self.block.load();
            match seen.state() {
                State::Resident => return,
                State::Busy => self.block.wait(seen),
                state => {
                    self.open();
                    if !self.block.try_own(seen) {
                        continue;
                    }
                    if !self.chunk.is_open_for_owner() {
                        self.block.publish(state, |word| word);
                        continue;
                    }
                    self.change(|memory| {
                        assert!(memory.0, "the chunk is closed");
                        memory.1 = true;
                    });
                    self.block.publish(State::Resident, |word| word);
                }
            }
        }
    }

    fn close(&self) {
        if self.chunk.load() == Chunk::Open && self.chunk.try_begin(Chunk::Open) {
            let is_absent = self.block.load().state() == State::Evicted;
            if is_absent {
                self.change(|memory| *memory = (false, false));
            }
            self.chunk.end(if is_absent { Chunk::Freed } else { Chunk::Open });
        }
    }
}

fn model(first: Chunk) {
    loom::model(move || {
        let scene = Arc::new(Scene {
            chunk: ChunkWord::new(first),
            block: BlockWord::new(State::Evicted),
            memory: UnsafeCell::new((first == Chunk::Open, false)),
        });
        let toucher = scene.clone();
        let touch = thread::spawn(move || toucher.touch());
        scene.close();
        touch.join().unwrap();
        assert_eq!(scene.block.load().state(), State::Resident);
        assert_eq!(scene.chunk.load(), Chunk::Open);
        scene.change(|memory| assert_eq!(*memory, (true, true)));
    });
}

#[test]
fn loom_a_chunk_that_is_closed_has_no_block_that_is_there() {
    model(Chunk::Open);
}

#[test]
fn loom_a_chunk_that_is_opened_and_closed_has_no_block_that_is_there() {
    model(Chunk::Freed);
}

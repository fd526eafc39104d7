//! The lifecycle of a device, and its state after a fork.

use crate::{Config, Device};
use page::fork::{AtFork, Mutex};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The lifecycle, whose lock is held during a fork.
#[derive(Debug, Default)]
pub(super) struct ForkHook {
    pub(super) lifecycle: Mutex<Lifecycle>,
}

#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// The settings; those of the device, once it is made.
    pub(super) settings: Config,
    pub(super) phase: Phase,
}

#[derive(Debug, Default)]
pub(super) enum Phase {
    #[default]
    Nothing,
    /// A thread is making the device.
    Making,
    Made(Arc<Instance>),
}

/// A device, and the number of times it is open.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) device: Device,
    pub(super) opens: AtomicUsize,
}

impl AtFork for ForkHook {
    fn prepare(&self) {
        self.lifecycle.lock_for_fork();
    }

    fn in_parent(&self) {
        self.lifecycle.unlock_after_fork();
    }

    fn in_child(&self) {
        self.lifecycle.unlock_after_fork();
        let mut life = self.lifecycle.lock();
        if let Phase::Making = life.phase {
            // The thread that was making the device does not exist in the child.
            life.phase = Phase::Nothing;
        }
    }
}

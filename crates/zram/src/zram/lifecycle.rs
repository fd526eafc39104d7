//! What a device is over its life, and how that goes through a fork.

use crate::{Config, Device};
use page::fork::{AtFork, Mutex};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Held over a fork.
#[derive(Debug, Default)]
pub(super) struct ForkHook {
    pub(super) lifecycle: Mutex<Lifecycle>,
}

#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// Those of the device, once there is one.
    pub(super) settings: Config,
    pub(super) phase: Phase,
}

#[derive(Debug, Default)]
pub(super) enum Phase {
    #[default]
    Nothing,
    /// A thread makes the device.
    Making,
    Made(Arc<Instance>),
}

/// A device, and how many have it open.
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
            // The thread that did is not here.
            life.phase = Phase::Nothing;
        }
    }
}

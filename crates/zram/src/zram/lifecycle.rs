//! The lifecycle of a device, and its repair in the child of a fork.

use crate::{Config, Device};
use page::fork::{AtFork, Mutex};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The lifecycle. The forking thread holds the lock of the lifecycle during a fork.
#[derive(Debug, Default)]
pub(super) struct ForkHook {
    pub(super) lifecycle: Mutex<Lifecycle>,
}

#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// The settings of the device, or of the device that will be created.
    pub(super) settings: Config,
    pub(super) phase: Phase,
}

#[derive(Debug, Default)]
pub(super) enum Phase {
    #[default]
    Nothing,
    /// A thread is creating the device.
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
            // The thread that was creating the device does not exist in the child.
            life.phase = Phase::Nothing;
        }
    }
}

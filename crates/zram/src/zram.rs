//! A device as the kernel knows one: settings first, then a disksize makes it, a reset makes it
//! nothing again.
//!
//! Lock order: a life's lock comes before all of its device's, and is held over none of their
//! doings: devices are made and dropped outside it, which takes the registry of forks.

mod attributes;
mod lifecycle;

pub use attributes::{Attribute, attributes};

use crate::{Config, Device, Error};
use lifecycle::{ForkHook, Instance, Phase};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A device with its attributes: nothing but settings until it has a disksize.
///
/// ```
/// let zram = zram::Zram::new();
/// zram.store("comp_algorithm", "zstd")?;
/// zram.store("disksize", "1G")?;
/// let device = zram.open()?;
/// device.write(0, b"some bytes")?;
/// assert_eq!(zram.show("comp_algorithm")?, "lz4 lz4hc [zstd] \n");
/// assert_eq!(zram.store("reset", "1").unwrap_err().errno(), 16); // EBUSY: it is open
/// drop(device);
/// zram.store("reset", "1")?;
/// # Ok::<(), zram::Error>(())
/// ```
#[derive(Debug)]
pub struct Zram {
    locked: Arc<ForkHook>,
}

/// A device that is open, and so can't be reset. Any thread may have one of its own.
#[derive(Debug)]
pub struct Open(Arc<Instance>);

impl Deref for Open {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.0.device
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.opens.fetch_sub(1, Relaxed);
    }
}

impl Default for Zram {
    fn default() -> Self {
        Zram::new()
    }
}

impl Zram {
    /// Returns a `Zram` without a device, with the default settings.
    pub fn new() -> Self {
        let locked = Arc::<ForkHook>::default();
        let weak: Weak<ForkHook> = Arc::downgrade(&locked);
        page::fork::register(weak, page::fork::Turn::First);
        Zram { locked }
    }

    /// Returns the settings: those of the device, if there is one.
    pub fn settings(&self) -> Config {
        self.locked.lifecycle.lock().settings.clone()
    }

    /// Changes settings, which a device that is made can't. `name` is the attribute to name in an
    /// error.
    ///
    /// # Errors
    /// [`Error::Initialised`], or what `change` says; then nothing is changed.
    pub fn configure(
        &self,
        name: &'static str,
        change: impl FnOnce(&mut Config) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut life = self.locked.lifecycle.lock();
        let Phase::Nothing = life.phase else { return Err(Error::Initialised { name }) };
        let mut settings = life.settings.clone();
        change(&mut settings)?;
        life.settings = settings;
        Ok(())
    }

    /// Makes the device, of `bytes` bytes rounded up to slots, with the settings there are.
    ///
    /// # Errors
    /// [`Error::Initialised`]; or the settings can't be, or there is no memory: then there is
    /// nothing, as before. After an error of a codec, algorithms and parameters are the default
    /// ones again.
    pub fn set_disksize(&self, bytes: u64) -> Result<(), Error> {
        let settings = {
            let mut life = self.locked.lifecycle.lock();
            let Phase::Nothing = life.phase else {
                return Err(Error::Initialised { name: "disksize" });
            };
            life.phase = Phase::Making;
            Config { disksize: bytes, ..life.settings.clone() }
        };
        let instance = Device::new(settings);
        let mut life = self.locked.lifecycle.lock();
        match instance {
            Ok(device) => {
                // Limits may have been set meanwhile.
                device.set_mem_limit(life.settings.mem_limit);
                device.set_total_limit(life.settings.total_limit);
                life.settings.disksize = device.disksize();
                life.phase = Phase::Made(Arc::new(Instance { device, opens: AtomicUsize::new(0) }));
                Ok(())
            }
            Err(error) => {
                if let Error::Codec(_) = error {
                    let Config { algorithm, params, recompression, .. } = Config::default();
                    let settings = life.settings.clone();
                    life.settings = Config { algorithm, params, recompression, ..settings };
                }
                life.phase = Phase::Nothing;
                Err(error)
            }
        }
    }

    /// Opens the device.
    ///
    /// # Errors
    /// [`Error::NoDevice`]: it has no disksize.
    pub fn open(&self) -> Result<Open, Error> {
        let life = self.locked.lifecycle.lock();
        let Phase::Made(instance) = &life.phase else { return Err(Error::NoDevice) };
        instance.opens.fetch_add(1, Relaxed);
        Ok(Open(instance.clone()))
    }

    /// Frees all and makes all settings the default ones, but those that limit write-back
    /// (`writeback_limit`, `writeback_limit_enable`, `writeback_batch_size`), which stay as in the
    /// kernel. A call of [`show`](Self::show) or
    /// [`store`](Self::store) that is under way ends first what it does, a job too: until then the
    /// device's memory and backing store stay.
    ///
    /// # Errors
    /// [`Error::Open`]: the device is open, or being made.
    pub fn reset(&self) -> Result<(), Error> {
        let mut life = self.locked.lifecycle.lock();
        let opens = match &life.phase {
            Phase::Nothing => 0,
            Phase::Making => 1,
            Phase::Made(instance) => instance.opens.load(Relaxed),
        };
        if opens > 0 {
            return Err(Error::Open { opens });
        }
        let gone = std::mem::take(&mut *life);
        // As the kernel, which leaves what limits write-back.
        life.settings.writeback = gone.settings.writeback.clone();
        drop(life);
        drop(gone);
        Ok(())
    }

    /// Sets the limit of pool pages, as [`Config::mem_limit`], now and of the device to be made.
    pub fn set_mem_limit(&self, bytes: Option<u64>) {
        self.limit(|settings| settings.mem_limit = bytes, |device| device.set_mem_limit(bytes));
    }

    /// Sets the limit of all memory, as [`Config::total_limit`], now and of the device to be made.
    pub fn set_total_limit(&self, bytes: Option<u64>) {
        self.limit(|settings| settings.total_limit = bytes, |device| device.set_total_limit(bytes));
    }

    fn limit(&self, set: impl FnOnce(&mut Config), apply: impl FnOnce(&Device)) {
        let mut life = self.locked.lifecycle.lock();
        set(&mut life.settings);
        if let Phase::Made(instance) = &life.phase {
            apply(&instance.device);
        }
    }

    /// The device, if there is one, for as long as an attribute's call takes.
    fn instance(&self) -> Option<Arc<Instance>> {
        match &self.locked.lifecycle.lock().phase {
            Phase::Made(instance) => Some(instance.clone()),
            _ => None,
        }
    }
}

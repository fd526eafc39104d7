//! A device with the kernel's interface: settings are written first, then the disksize creates the
//! device, and a reset removes the device.
//!
//! Lock order: the lock of the lifecycle is taken before all locks of the lifecycle's device. No
//! thread holds this lock during an operation, the creation or the drop of the device. The reason
//! is that creation and drop take the lock of the registry of forks, which a fork takes before this
//! lock.

mod attributes;
mod lifecycle;

pub use attributes::{Attribute, attributes};

use crate::{Config, Device, Error, Recompressed, WrittenBack};
use lifecycle::{ForkHook, Instance, Phase};
use std::fmt::Write;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A device with its attributes. Until the disksize is set, only the settings exist.
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

/// An open device. An open device can't be reset. Several threads are allowed to open one device.
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

    /// Returns the settings of the device, or the current settings if no device exists.
    pub fn settings(&self) -> Config {
        self.locked.lifecycle.lock().settings.clone()
    }

    /// Changes the settings, which is possible only before the device is created. `name` is the
    /// name of the attribute in errors.
    ///
    /// # Errors
    /// [`Error::Initialised`], or the error of `change`. After an error the settings are unchanged.
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

    /// Creates the device with the current settings. The size of the device is `bytes` bytes,
    /// rounded up to slots.
    ///
    /// # Errors
    /// [`Error::Initialised`], or the settings are invalid, or memory does not suffice. If the call
    /// fails, it creates no device. After an error of a codec, the algorithms and their parameters
    /// are reset to the defaults.
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
                // Another thread may have set limits while the device was being created.
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
    /// [`Error::NoDevice`]: the disksize is not set.
    pub fn open(&self) -> Result<Open, Error> {
        let life = self.locked.lifecycle.lock();
        let Phase::Made(instance) = &life.phase else { return Err(Error::NoDevice) };
        instance.opens.fetch_add(1, Relaxed);
        Ok(Open(instance.clone()))
    }

    /// Frees the device and resets all settings to the defaults. As in the kernel, the settings of
    /// the write-back limit (`writeback_limit`, `writeback_limit_enable`, `writeback_batch_size`)
    /// are not reset. Calls of [`show`](Self::show) or [`store`](Self::store) that are under way,
    /// including jobs, delay the release of the device's memory and backing store.
    ///
    /// # Errors
    /// [`Error::Open`]: the device is open, or is being created.
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
        // As in the kernel, the settings of the write-back limit remain.
        life.settings.writeback = gone.settings.writeback.clone();
        drop(life);
        drop(gone);
        Ok(())
    }

    /// Sets the limit of pool pages ([`Config::mem_limit`]). If no device exists yet, the limit
    /// applies to the device that will be created.
    pub fn set_mem_limit(&self, bytes: Option<u64>) {
        self.limit(|settings| settings.mem_limit = bytes, |device| device.set_mem_limit(bytes));
    }

    /// Sets the limit of all memory ([`Config::total_limit`]). If no device exists yet, the limit
    /// applies to the device that will be created.
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

    /// Returns the text of the attribute `name`: lines that end with a newline, as in the kernel.
    ///
    /// # Errors
    /// [`Error::NoAttribute`], [`Error::Access`], [`Error::Uninitialised`]; [`Error::NoBuffer`].
    pub fn show(&self, name: &str) -> Result<String, Error> {
        attributes::show(self, name)
    }

    /// Writes the text of the attribute `name` to `out` piece by piece, because the text of
    /// `block_state` can be long.
    ///
    /// # Errors
    /// As [`show`](Self::show), and [`Error::Output`].
    pub fn show_to(&self, name: &str, out: &mut dyn Write) -> Result<(), Error> {
        attributes::show_to(self, name, out)
    }

    /// Writes `text` to the attribute `name`. As in the kernel, one newline at the end of `text` is
    /// ignored. Unknown keys in words of the form `key=value` are ignored, too.
    ///
    /// # Errors
    /// [`Error::NoAttribute`], [`Error::Access`]; or another error, with the errno that the kernel
    /// would return. After an error nothing is changed.
    pub fn store(&self, name: &str, text: &str) -> Result<(), Error> {
        attributes::store(self, name, text)
    }

    /// Writes `words` to the attribute `recompress`, and returns the result of the job.
    ///
    /// # Errors
    /// The errors of [`Device::recompress`], and errors of invalid words.
    pub fn recompress(&self, words: &str) -> Result<Recompressed, Error> {
        attributes::recompress(self, words)
    }

    /// Writes `words` to the attribute `writeback`, and returns the result of the job.
    ///
    /// # Errors
    /// The errors of [`Device::write_back`], and errors of invalid words.
    pub fn write_back(&self, words: &str) -> Result<WrittenBack, Error> {
        attributes::write_back(self, words)
    }

    /// Returns the device, if it exists, for the duration of a call that reads or writes an
    /// attribute.
    fn instance(&self) -> Option<Arc<Instance>> {
        match &self.locked.lifecycle.lock().phase {
            Phase::Made(instance) => Some(instance.clone()),
            _ => None,
        }
    }
}

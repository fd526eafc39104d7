//! The attributes of a device in arguments such as `--set` and `--show`.

use crate::error::Error;
use zram::{Access, Attribute, Zram, attributes};

/// An attribute and its new value.
#[derive(Clone, Debug)]
pub(crate) struct AttributeSetting {
    pub(crate) name: &'static str,
    value: String,
}

impl AttributeSetting {
    /// Parses `NAME=VALUE` for an attribute that can be set before the device has data. If `NAME`
    /// is the size of the disk, fails with the message `size`.
    ///
    /// # Errors
    /// Fails if the attribute does not exist or can't be set.
    pub(crate) fn parse(text: &str, size: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        let attribute = named(name)?;
        match attribute.name {
            "disksize" => Err(size.to_owned()),
            _ if attribute.access() == Access::Read => Err("can only be shown".to_owned()),
            name => Ok(AttributeSetting { name, value: value.to_owned() }),
        }
    }

    /// Fails if the attribute can't have this value.
    pub(crate) fn apply(&self, zram: &Zram) -> Result<(), Error> {
        zram.store(self.name, &self.value).map_err(|error| {
            let message = format!("--set: {error}");
            match error {
                zram::Error::File { .. } => Error::Failed(message),
                _ => Error::Usage(message),
            }
        })
    }
}

fn named(name: &str) -> Result<&'static Attribute, String> {
    let found = attributes().iter().find(|attribute| attribute.name == name);
    found.ok_or_else(|| "no such attribute; 'uzram attributes' lists them".to_owned())
}

/// Checks that the attribute `name` exists and can be read, and returns its name.
pub(crate) fn readable(name: &str) -> Result<&'static str, String> {
    let attribute = named(name)?;
    match attribute.access() {
        Access::Write => Err("can only be set".to_owned()),
        _ => Ok(attribute.name),
    }
}

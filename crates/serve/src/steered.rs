//! The interface by which the control socket and the mount's files control a served disk.

use rustix::io::Errno;
use std::path::Path;
use zram::{BadValue, Damage, JobKind, Restored, SaveOptions, SaveTo, Saved, Zram};

/// A refusal that is sent to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Linux's errno.
    pub errno: i32,
    /// The reason, on one line.
    pub message: String,
}

impl Refusal {
    /// Creates a refusal with one of Linux's errno values and a reason on one line.
    pub fn new(errno: Errno, message: impl Into<String>) -> Self {
        Refusal { errno: errno.raw_os_error(), message: message.into() }
    }
}

impl From<zram::Error> for Refusal {
    fn from(error: zram::Error) -> Self {
        let message = match &error {
            zram::Error::Open { .. } => {
                "a served disk can't be reset; stop its server, which frees everything".to_owned()
            }
            zram::Error::Initialised { name: "disksize" } => {
                "a served disk keeps its size; save it, and restore it to a server with another \
                 --size"
                    .to_owned()
            }
            zram::Error::Initialised { name } => format!(
                "attribute {name}: it can't be set while the disk is served; set it when a server \
                 starts ('uzram serve --set {name}=VALUE')"
            ),
            error => error.to_string(),
        };
        Refusal { errno: error.errno(), message }
    }
}

/// A served device, and the conditions under which its server saves and restores it.
pub trait Steered: Send + Sync {
    /// Returns the device with its attributes.
    fn zram(&self) -> &Zram;

    /// Returns the server's state, as JSON.
    fn stat(&self) -> String {
        "{}".to_owned()
    }

    /// Saves the device to a file.
    ///
    /// # Errors
    /// Fails if the server refuses, or if the device can't be saved at `path`.
    fn save(&self, path: &Path) -> Result<Saved, Refusal> {
        Ok(self.zram().open()?.save(SaveTo::File(path), &SaveOptions::default())?)
    }

    /// Restores the device from a saved file.
    ///
    /// # Errors
    /// Fails if the server refuses, or if the file can't be restored.
    fn restore(&self, path: &Path) -> Result<Restored, Refusal> {
        Ok(self.zram().open()?.restore(path, Damage::Refuse)?)
    }
}

/// A device whose server refuses no save and no restore.
impl Steered for Zram {
    fn zram(&self) -> &Zram {
        self
    }
}

/// Parses the value of attribute `name`, which is a path.
fn path<'t>(name: &'static str, text: &'t str) -> Result<&'t Path, Refusal> {
    if text.is_empty() {
        let (value, reason) = (String::new(), "expected the path of a file".to_owned());
        return Err(zram::Error::Value { name, value, why: BadValue::Invalid, reason }.into());
    }
    Ok(Path::new(text))
}

/// Sets an attribute that a client has written through the control socket or the mount. If the
/// attribute is `save` or `restore`, passes the request to the server.
pub(crate) fn store(steered: &dyn Steered, name: &str, value: &str) -> Result<(), Refusal> {
    match name {
        "save" => {
            let path = path("save", value)?;
            steered.save(path)?.in_part(path).map_or(Ok(()), |lacks| Err(lacks.into()))
        }
        "restore" => steered.restore(path("restore", value)?).map(drop),
        _ => Ok(steered.zram().store(name, value)?),
    }
}

/// Runs a job, and returns its result as words and numbers.
pub(crate) fn job(
    steered: &dyn Steered,
    kind: JobKind,
    text: &str,
) -> Result<Vec<(&'static str, u64)>, Refusal> {
    Ok(match kind {
        JobKind::Save => {
            let saved = steered.save(path("save", text)?)?;
            let lost = saved.lost.iter();
            let lost = lost.flat_map(|of| [("lost_from", of.start), ("lost_to", of.end)]);
            let all =
                [("pages", saved.slots), ("bytes", saved.bytes), ("lost_pages", saved.lost_slots)];
            all.into_iter().chain(lost).collect()
        }
        JobKind::Restore => vec![("pages", steered.restore(path("restore", text)?)?.slots)],
        JobKind::Recompress => {
            let done = steered.zram().recompress(text)?;
            vec![
                ("tried", done.tried),
                ("smaller", done.smaller),
                ("saved_bytes", done.saved_bytes),
                ("touched", done.touched),
                ("damaged", done.damaged.count),
            ]
        }
        JobKind::WriteBack => {
            let done = steered.zram().write_back(text)?;
            vec![
                ("pages", done.slots),
                ("bytes", done.bytes),
                ("blocks", done.blocks),
                ("touched", done.touched),
                ("damaged", done.damaged.count),
            ]
        }
    })
}

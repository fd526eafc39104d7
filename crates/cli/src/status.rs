//! The status that a server reports.

mod done;

use crate::text::human;
pub(crate) use done::Done;
use serde::{Deserialize, Serialize};
use serve::Address;
use serve::nbd::Mode;
use std::path::PathBuf;
use zram::Zram;

/// Properties that do not change while the server runs.
#[derive(Debug)]
pub(crate) struct ServerStatus {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) algorithm: &'static str,
    /// Whether NBD clients can only read, or also write.
    pub(crate) mode: Mode,
    pub(crate) nbd: Address,
    pub(crate) mount: Option<PathBuf>,
    pub(crate) control: Address,
    pub(crate) metrics: Option<Address>,
}

/// The memory use of a served device, and its addresses.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) algorithm: String,
    pub(crate) disksize: u64,
    pub(crate) orig_data_size: u64,
    pub(crate) compr_data_size: u64,
    pub(crate) mem_used_total: u64,
    pub(crate) mem_used_max: u64,
    pub(crate) mem_limit: u64,
    pub(crate) mem_total: u64,
    pub(crate) same_pages: u64,
    pub(crate) huge_pages: u64,
    pub(crate) read_only: bool,
    pub(crate) connections: usize,
    /// The activity of the device since its creation. All values are 0 if the server is too old to
    /// report this field.
    #[serde(default)]
    pub(crate) done: Done,
    pub(crate) job: Option<RunningJob>,
    pub(crate) nbd: String,
    /// The address at which metrics are served.
    #[serde(default)]
    pub(crate) metrics: Option<String>,
}

/// A running job, with its number of processed slots and its total number of slots. The total is 0
/// if it is unknown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunningJob {
    pub(crate) kind: String,
    pub(crate) done: u64,
    pub(crate) of: u64,
}

impl ServerStatus {
    /// Returns the current status, or `None` while the device is being created again.
    pub(crate) fn stat(&self, zram: &Zram, connections: usize) -> Option<Stat> {
        let device = zram.open().ok()?;
        let stat = device.mm_stat();
        Some(Stat {
            name: self.name.clone(),
            algorithm: zram.settings().algorithm.name().to_owned(),
            disksize: device.disksize(),
            orig_data_size: stat.orig_data_size,
            compr_data_size: stat.compr_data_size,
            mem_used_total: stat.mem_used_total,
            mem_used_max: stat.mem_used_max,
            mem_limit: stat.mem_limit,
            mem_total: device.mem_total(),
            same_pages: stat.same_pages,
            huge_pages: stat.huge_pages,
            read_only: self.mode == Mode::ReadOnly,
            connections,
            done: Done::of(&device),
            job: device.job().map(|job| RunningJob {
                kind: job.kind.to_string(),
                done: job.done,
                of: job.of,
            }),
            nbd: self.uri(),
            metrics: self.metrics.as_ref().map(metrics_uri),
        })
    }

    /// Returns the URI of the export for NBD clients.
    fn uri(&self) -> String {
        let name = encoded(self.name.as_bytes());
        match &self.nbd {
            Address::Unix(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let socket = encoded(path.as_os_str().as_encoded_bytes());
                format!("nbd+unix:///{name}?socket={socket}")
            }
            Address::Tcp { host, port } => format!("nbd://{}:{port}/{name}", bracketed(host)),
        }
    }

    /// Returns the text that the server prints as soon as clients can connect.
    pub(crate) fn announcement(&self) -> String {
        let uri = self.uri();
        let size = human(self.size);
        let read_only = if self.mode == Mode::ReadOnly { ", read-only" } else { "" };
        let Address::Unix(control) = &self.control else { return uri };
        let export = match &*self.name {
            "" => String::new(),
            name => format!(" -name {}", quoted(name)),
        };
        let client = match &self.nbd {
            Address::Unix(path) => format!("-unix {}", quoted(&path.to_string_lossy())),
            Address::Tcp { host, port } => format!("{host} {port}"),
        };
        let mut rows = vec![
            ("look at it", format!("nbdinfo '{uri}'")),
            (
                "block device",
                format!("nbd-client {client}{export} /dev/nbd0   # as root, with the module nbd"),
            ),
            ("file", format!("nbdfuse DIR/disk '{uri}'   # then losetup, mkfs, mount")),
            ("in qemu", format!("-drive 'file={uri},format=raw,if=virtio'")),
            (
                "how full it is",
                format!("uzram stat --control {}", quoted(&control.to_string_lossy())),
            ),
        ];
        rows.extend(self.mount.as_deref().map(|dir| {
            let disk = quoted(&dir.join("disk").to_string_lossy());
            ("loop device", format!("losetup --find --show {disk}   # as root"))
        }));
        rows.extend(self.metrics.as_ref().map(|metrics| ("metrics", metrics_uri(metrics))));
        let mut text = format!("serving {size}, {}{read_only}: {uri}\n", self.algorithm);
        text.extend(rows.iter().map(|(what, command)| format!("  {what:<14}  {command}\n")));
        if !self.nbd.is_local() {
            let nbd = &self.nbd;
            text += &format!(
                "  Anyone who can reach {nbd} can read and write the disk: NBD has no \
                 authentication.\n"
            );
        }
        text
    }
}

/// Returns `text` quoted as one word for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:=@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns `host` in the form that a URI needs, with an IPv6 address in brackets.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Returns the URL of the metrics for a browser.
fn metrics_uri(address: &Address) -> String {
    match address {
        Address::Tcp { host, port } => format!("http://{}:{port}/metrics", bracketed(host)),
        Address::Unix(path) => format!("unix:{}:/metrics", path.display()),
    }
}

/// Percent-encodes `bytes` for a URI.
fn encoded(bytes: &[u8]) -> String {
    let text = |&byte: &u8| match byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    bytes.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(nbd: Address, name: &str) -> ServerStatus {
        ServerStatus {
            name: name.to_owned(),
            size: 4 << 30,
            algorithm: "lz4",
            mode: Mode::ReadOnly,
            nbd,
            mount: Some("/m".into()),
            control: Address::Unix("/c".into()),
            metrics: Some(Address::Tcp { host: "::1".into(), port: 9 }),
        }
    }

    #[test]
    fn uris_name_the_export() {
        let unix = status(Address::Unix("/a b/s".into()), "d\u{e4}");
        assert_eq!(unix.uri(), "nbd+unix:///d%C3%A4?socket=/a%20b/s");
        let tcp = |host: &str| status(Address::Tcp { host: host.into(), port: 7 }, "").uri();
        assert_eq!(
            (tcp("127.0.0.1"), tcp("::1")),
            ("nbd://127.0.0.1:7/".into(), "nbd://[::1]:7/".into())
        );
        let text = unix.announcement();
        assert!(text.starts_with("serving 4.0 GiB, lz4, read-only: nbd+unix:///"), "{text}");
        for part in [
            "uzram stat --control /c\n",
            "losetup --find --show /m/disk",
            "http://[::1]:9/metrics\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn who_can_reach_it_is_told() {
        let open = status(Address::Tcp { host: "0.0.0.0".into(), port: 7 }, "x").announcement();
        assert!(
            open.contains("Anyone who can reach tcp:0.0.0.0:7 can read and write the disk"),
            "{open}"
        );
        let closed = status(Address::Tcp { host: "127.0.0.1".into(), port: 7 }, "x").announcement();
        assert!(!closed.contains("Whoever"), "{closed}");
    }
}

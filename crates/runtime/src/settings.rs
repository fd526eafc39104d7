//! The settings that `uzram run` passes to the runtime.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use zmem::{BackendKind, BlockOrder, Options};

/// The backends that an arena can have, and their names in the settings.
const BACKENDS: [(&str, BackendKind); 4] = [
    ("best", BackendKind::Best),
    ("signal", BackendKind::Signal),
    ("signal-mappings", BackendKind::SignalMappings),
    ("signal-remap", BackendKind::SignalRemap),
];

/// The settings, which `uzram run` passes as a list of `NAME=VALUE` separated by commas.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    /// The size of the arena's address space in bytes. If `None`, the runtime chooses the size.
    pub(crate) arena: Option<usize>,
    /// The path of the file to which each process appends a line when the process ends.
    pub(crate) stats: Option<Vec<u8>>,
    /// Whether programs that this program executes run without a host.
    pub(crate) is_first_only: bool,
    /// Whether hosts are injected into executed programs, if the kernel permits the injection.
    pub(crate) is_injected: bool,
    /// The file that the processes of the group share.
    pub(crate) group: Option<GroupName>,
    /// The path of the host.
    pub(crate) host: Option<CString>,
    /// The device and the inode of `uzram run`'s standard error.
    pub(crate) stderr: Option<(usize, usize)>,
}

/// The inherited descriptor of the group's file, and the file's inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupName {
    pub(crate) number: usize,
    pub(crate) inode: usize,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// If the settings contain a version, checks that it is the version of this host. The check is
/// needed because a command of another version can pass other arguments after the settings.
///
/// # Errors
/// The message for the user.
pub fn check_version(settings: &OsStr) -> Result<(), String> {
    let mut parts = settings.as_bytes().split(|&byte| byte == b',');
    let named = parts.find_map(|part| part.strip_prefix(b"version="));
    match named.filter(|named| *named != VERSION.as_bytes()) {
        Some(named) => Err(format!(
            "this host has version {VERSION}, and the command that started it {}; install both of \
             one version",
            named.escape_ascii()
        )),
        None => Ok(()),
    }
}

impl Settings {
    /// Parses the settings.
    ///
    /// # Errors
    /// A message about the invalid part of the settings.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, String> {
        let mut options = Options::default();
        let mut found = Settings {
            options: options.clone(),
            arena: None,
            stats: None,
            is_first_only: false,
            is_injected: false,
            group: None,
            host: None,
            stderr: None,
        };
        for part in text.as_bytes().split(|&byte| byte == b',').filter(|part| !part.is_empty()) {
            let shown = || String::from_utf8_lossy(part).into_owned();
            let at = part.iter().position(|&byte| byte == b'=');
            let (name, value) = part.split_at(at.ok_or_else(|| format!("{}: no value", shown()))?);
            let value = &value[1..];
            let of = |text: &[u8]| str::from_utf8(text).ok()?.parse::<usize>().ok();
            let number = || of(value).ok_or_else(|| format!("{}: not a number", shown()));
            let pair = || {
                let at = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
                let pair = of(&value[..at]).zip(value.get(at + 1..).and_then(of));
                pair.ok_or_else(|| format!("{}: take NUMBER:NUMBER", shown()))
            };
            match name {
                b"limit" => options.limit = Some(number()? as u64),
                b"block" => {
                    let block = number()?;
                    if !block.is_power_of_two() || !(4096..=65536).contains(&block) {
                        return Err(format!("{}: take 4096 to 65536, a power of two", shown()));
                    }
                    options.block = BlockOrder::Fixed((block / 4096).trailing_zeros());
                }
                b"algorithm" => {
                    let codec =
                        zcomp::codecs().iter().find(|codec| codec.name().as_bytes() == value);
                    options.codec = *codec.ok_or_else(|| format!("{}: unknown", shown()))?;
                }
                b"level" => {
                    let level = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    let level: i32 = level.ok_or_else(|| format!("{}: not a number", shown()))?;
                    options.params.level = Some(level);
                }
                b"backend" => {
                    let kind = BACKENDS.iter().find(|(name, _)| name.as_bytes() == value);
                    options.backend = kind.ok_or_else(|| format!("{}: unknown", shown()))?.1;
                }
                b"version" => {}
                b"first-only" => found.is_first_only = number()? != 0,
                b"inject" => found.is_injected = number()? != 0,
                b"arena" => found.arena = Some(number()?),
                b"group" => {
                    found.group = Some(pair().map(|(number, inode)| GroupName { number, inode })?);
                }
                b"stderr" => found.stderr = Some(pair()?),
                b"host" => found.host = CString::new(value).ok(),
                b"stats" => found.stats = Some(value.to_vec()),
                _ => return Err(format!("{}: unknown", shown())),
            }
        }
        found.options = options;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_another_version_are_refused() {
        for of_this in ["limit=1", "", &format!("version={VERSION},limit=1")] {
            assert_eq!(check_version(OsStr::new(of_this)), Ok(()), "{of_this}");
        }
        let refused = check_version(OsStr::new("limit=1,version=0.0.1-x")).unwrap_err();
        assert!(refused.contains("0.0.1-x") && refused.contains(VERSION), "{refused}");
    }

    #[test]
    fn settings_are_read_and_wrong_ones_named() {
        let of = |text: &str| Settings::parse(OsStr::new(text));
        let text = "limit=1000,block=16384,algorithm=zstd,level=-3,backend=signal-remap,\
            group=960:7,stderr=12:3,first-only=1,stats=/a,arena=4194304";
        let found = of(text).unwrap();
        assert_eq!(found.group, Some(GroupName { number: 960, inode: 7 }));
        assert_eq!(found.stderr, Some((12, 3)));
        assert!(found.is_first_only && !of("first-only=0").unwrap().is_first_only);
        assert!(!found.is_injected && of("inject=1").unwrap().is_injected);
        assert_eq!(found.options.limit, Some(1000));
        assert_eq!(found.options.backend, BackendKind::SignalRemap);
        assert_eq!(found.options.block, BlockOrder::Fixed(2));
        assert_eq!(found.options.codec.name(), "zstd");
        assert_eq!(found.options.params.level, Some(-3));
        assert_eq!((found.arena, found.stats.as_deref()), (Some(4 << 20), Some(&b"/a"[..])));
        for wrong in [
            "limit",
            "group=5",
            "group=1:2:3",
            "stderr=1:",
            "limit=x",
            "level=high",
            "block=5000",
            "block=131072",
            "algorithm=x",
            "backend=userfaultfd",
            "x=1",
        ] {
            assert!(of(wrong).unwrap_err().starts_with(wrong), "{wrong}");
        }
    }
}

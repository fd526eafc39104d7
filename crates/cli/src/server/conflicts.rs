//! Places that a server is given and that can't be together.

use super::headroom::STACK;
use super::save_file::resolved;
use crate::args::ServeArgs;
use crate::error::Error;
use crate::socket_dir;
use measure::text::escaped;
use serve::{Address, spawn_within};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long it is looked for where the mount is to be.
const FOUND_WITHIN: Duration = Duration::from_secs(2);

/// Checks that nothing the server needs is to be in its own mount, which hides it, and that its
/// sockets are two.
pub(super) fn check(args: &ServeArgs) -> Result<(), Error> {
    let usual = |name| socket_dir::directory().join(name);
    let nbd = match &args.nbd {
        Some(Address::Unix(path)) => Some(path.clone()),
        Some(Address::Tcp { .. }) => None,
        None => Some(usual(socket_dir::NBD)),
    };
    let control = args.control.clone().or_else(|| Some(usual(socket_dir::CONTROL)));
    if let (Some(nbd), Some(control)) = (&nbd, &control)
        && place(nbd).is_some_and(|nbd| place(control) == Some(nbd))
    {
        return Err(Error::Usage(format!(
            "--nbd and --control are both at '{}'; give each a path of its own",
            escaped(nbd)
        )));
    }
    let Some(mount) = args.mount.as_deref().and_then(mount) else { return Ok(()) };
    let needed = [
        ("--save-on-exit", args.save_on_exit.clone()),
        ("--backing", args.backing.clone()),
        ("--nbd", nbd),
        ("--control", control),
    ];
    let lies_in_it = |path: &Path| place(path).is_some_and(|place| place.starts_with(&mount));
    for (flag, path) in needed {
        if let Some(path) = path.filter(|path| lies_in_it(path)) {
            return Err(Error::Usage(format!(
                "{flag} '{}' lies in the directory given to --mount, and the mount would hide it; \
                 give another path",
                escaped(&path)
            )));
        }
    }
    Ok(())
}

/// Returns where the directory is. One below the mount of a server that is stuck is found by
/// nobody.
fn mount(dir: &Path) -> Option<PathBuf> {
    let dir = dir.to_owned();
    spawn_within("find the mount", STACK, FOUND_WITHIN, || fs::canonicalize(dir))?.ok()
}

/// Returns where a path leads, if its directory is there; by whatever path it is given.
fn place(path: &Path) -> Option<PathBuf> {
    let path = resolved(path).ok()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
    Some(parent.join(path.file_name()?))
}

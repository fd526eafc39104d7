//! Finds paths in a server's arguments that conflict with each other.

use crate::args::ServeArgs;
use crate::error::Error;
use crate::policy::{FOUND_WITHIN, STACK};
use crate::socket_dir;
use crate::text::escaped;
use serve::{Address, spawn_within};
use std::fs;
use std::path::{Path, PathBuf};
use zram::follow_links;

/// Checks that the mount hides no path that the server needs, and that the server's two sockets
/// have different paths.
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

/// Returns the canonical path of the mount's directory, or `None` if the search does not end in
/// time. The search hangs if the directory lies below the mount of a stuck server.
fn mount(dir: &Path) -> Option<PathBuf> {
    let dir = dir.to_owned();
    spawn_within("find the mount", STACK, FOUND_WITHIN, || fs::canonicalize(dir))?.ok()
}

/// Returns the canonical path of a file. The directory must exist, but the file need not exist. All
/// paths of a file yield the same result.
fn place(path: &Path) -> Option<PathBuf> {
    let path = follow_links(path).ok()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
    Some(parent.join(path.file_name()?))
}

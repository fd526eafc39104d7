//! System calls on names, attributes and mounts of files.

use super::files::{file, open};
use super::trial::{Case, Need, Trial, must, raw};
use libc::*;

const NONE: &str = "/no such file";
const HERE: usize = AT_FDCWD as usize;

/// Returns a file with an extended attribute of three bytes.
fn with_attribute(trial: &mut Trial) -> Option<usize> {
    let file = file(b"");
    let (name, value) = (c"user.a".as_ptr() as usize, b"abc".as_ptr() as usize);
    let answer = raw(SYS_fsetxattr, &[file, name, value, 3, 0]);
    if answer < 0 {
        trial.leave_out();
    }
    (answer == 0).then_some(file)
}

/// Returns the path in `/proc` of a descriptor.
fn path_of(file: usize) -> String {
    format!("/proc/self/fd/{file}")
}

/// Returns an `xattr_args` with space for a value of three bytes.
fn value(trial: &mut Trial) -> usize {
    let value = trial.output(3);
    trial.words(&[value, 3])
}

pub const CASES: &[Case] = &[
    ("stat", |t| vec![t.text("/"), t.output(144)]),
    ("lstat", |t| vec![t.text("/"), t.output(144)]),
    ("fstat", |t| vec![file(b""), t.output(144)]),
    ("newfstatat", |t| vec![HERE, t.text("/"), t.output(144), 0]),
    ("statx", |t| vec![HERE, t.text("/"), 0, 0x7ff, t.output(256)]),
    ("statfs", |t| vec![t.text("/"), t.output(120)]),
    ("ustat", |t| {
        let mut facts = [0_usize; 18];
        must(SYS_stat, &[c"/proc".as_ptr() as usize, facts.as_mut_ptr() as usize]);
        vec![facts[0], t.output(32)]
    }),
    ("fstatfs", |t| vec![file(b""), t.output(120)]),
    ("access", |t| vec![t.text("/"), 0]),
    ("faccessat", |t| vec![HERE, t.text("/"), 0]),
    ("faccessat2", |t| vec![HERE, t.text("/"), 0, 0]),
    ("getcwd", |t| {
        must(SYS_chdir, &[c"/".as_ptr() as usize]);
        vec![t.output(2), 2]
    }),
    ("getcwd large", |t| vec![t.room(4096, Need::Part), 4096]),
    ("chdir", |t| vec![t.text("/")]),
    ("chroot", |t| vec![t.text(NONE)]),
    ("mkdir", |t| vec![t.text("/"), 0]),
    ("mkdirat", |t| vec![HERE, t.text("/"), 0]),
    ("rmdir", |t| vec![t.text(NONE)]),
    ("mknod", |t| vec![t.text("/"), S_IFREG as usize, 0]),
    ("mknodat", |t| vec![HERE, t.text("/"), S_IFREG as usize, 0]),
    ("unlink", |t| vec![t.text(NONE)]),
    ("unlinkat", |t| vec![HERE, t.text(NONE), 0]),
    ("symlink", |t| vec![t.text("/"), t.text("/")]),
    ("symlinkat", |t| vec![t.text("/"), HERE, t.text("/")]),
    ("link", |t| vec![t.text("/"), t.text("/")]),
    ("linkat", |t| vec![HERE, t.text("/"), HERE, t.text("/"), 0]),
    ("rename", |t| vec![t.text("/"), t.text("/")]),
    ("renameat", |t| vec![HERE, t.text("/"), HERE, t.text("/")]),
    ("renameat2", |t| vec![HERE, t.text("/"), HERE, t.text("/"), 0]),
    ("readlink", |t| vec![t.text("/proc/self/root"), t.output(1), 1]),
    ("readlinkat", |t| vec![HERE, t.text("/proc/self/exe"), t.output(4), 4]),
    ("chmod", |t| vec![t.text(NONE), 0]),
    ("fchmodat", |t| vec![HERE, t.text(NONE), 0]),
    ("fchmodat2", |t| vec![HERE, t.text(NONE), 0, 0]),
    ("chown", |t| vec![t.text(NONE), 0, 0]),
    ("lchown", |t| vec![t.text(NONE), 0, 0]),
    ("fchownat", |t| vec![HERE, t.text(NONE), 0, 0, 0]),
    ("utime", |t| vec![t.text(NONE), t.zeros(16)]),
    ("utimes", |t| vec![t.text(NONE), t.zeros(32)]),
    ("futimesat", |t| vec![HERE, t.text(NONE), t.zeros(32)]),
    ("utimensat", |t| vec![HERE, t.text(NONE), t.zeros(32), 0]),
    ("setxattr", |t| vec![t.text(NONE), t.text("user.a"), t.input(b"abc"), 3, 0]),
    ("lsetxattr", |t| vec![t.text(NONE), t.text("user.a"), t.input(b"abc"), 3, 0]),
    ("fsetxattr", |t| match with_attribute(t) {
        Some(file) => vec![file, t.text("user.a"), t.input(b"def"), 3, 0],
        None => vec![],
    }),
    ("setxattrat", |t| {
        let value = t.input(b"abc");
        let arguments = t.words(&[value, 3]);
        vec![HERE, t.text(NONE), 0, t.text("user.a"), arguments, 16]
    }),
    ("getxattr", |t| match with_attribute(t) {
        Some(file) => vec![t.text(&path_of(file)), t.text("user.a"), t.output(3), 3],
        None => vec![],
    }),
    ("lgetxattr", |t| vec![t.text("/"), t.text("user.no such"), t.room(3, Need::Maybe), 3]),
    ("fgetxattr", |t| match with_attribute(t) {
        Some(file) => vec![file, t.text("user.a"), t.output(3), 3],
        None => vec![],
    }),
    ("getxattrat", |t| match with_attribute(t) {
        Some(file) => vec![HERE, t.text(&path_of(file)), 0, t.text("user.a"), value(t), 16],
        None => vec![],
    }),
    ("listxattr", |t| match with_attribute(t) {
        Some(file) => vec![t.text(&path_of(file)), t.room(7, Need::Part), 7],
        None => vec![],
    }),
    ("llistxattr", |t| vec![t.text(NONE), t.room(7, Need::Maybe), 7]),
    ("flistxattr", |t| match with_attribute(t) {
        Some(file) => vec![file, t.room(7, Need::Part), 7],
        None => vec![],
    }),
    ("listxattrat", |t| match with_attribute(t) {
        Some(file) => vec![HERE, t.text(&path_of(file)), 0, t.room(7, Need::Part), 7],
        None => vec![],
    }),
    ("removexattr", |t| vec![t.text(NONE), t.text("user.a")]),
    ("lremovexattr", |t| vec![t.text(NONE), t.text("user.a")]),
    ("fremovexattr", |t| vec![file(b""), t.text("user.a")]),
    ("removexattrat", |t| vec![HERE, t.text(NONE), 0, t.text("user.a")]),
    ("file_getattr", |t| {
        let path = path_of(file(b""));
        vec![HERE, t.text(&path), t.output(24), 24, 0]
    }),
    ("file_setattr", |t| {
        let path = path_of(file(b""));
        vec![HERE, t.text(&path), t.zeros(24), 24, 0]
    }),
    ("name_to_handle_at", |t| vec![HERE, t.text("/"), t.zeros(8), t.output(4), 0]),
    ("name_to_handle_at unique", |t| vec![HERE, t.text("/"), t.zeros(8), t.output(8), 1]),
    ("open_by_handle_at", |t| {
        let handle = t.ints(&[8, 1, 0, 0]);
        vec![open(c"/", O_RDONLY), handle, 0]
    }),
    ("mount", |t| {
        let data = t.place(&[0; 4096], Need::Part);
        vec![t.text("none"), t.text(NONE), t.text("no such kind"), 0, data]
    }),
    ("umount2", |t| vec![t.text(NONE), 0]),
    ("pivot_root", |t| vec![t.text("/"), t.text(NONE)]),
    ("open_tree", |t| vec![HERE, t.text(NONE), 0]),
    ("open_tree_attr", |t| vec![HERE, t.text("/"), 0, t.zeros(32), 32]),
    ("move_mount", |t| vec![HERE, t.text(NONE), HERE, t.text("/"), 0]),
    ("mount_setattr", |t| {
        let attributes = t.words(&[1, 0, 0, 0]);
        vec![HERE, t.text(NONE), 0, attributes, 32]
    }),
    ("fsopen", |t| vec![t.text("no such kind"), 0]),
    ("fspick", |t| vec![HERE, t.text(NONE), 0]),
    ("fsconfig", |t| {
        let answer = raw(SYS_fsopen, &[c"tmpfs".as_ptr() as usize, 0]);
        let Ok(context) = usize::try_from(answer) else { return t.leave_out() };
        vec![context, 1, t.text("size"), t.text("1m"), 0]
    }),
    ("statmount", |t| vec![request(t, 0), t.room(512, Need::Part), 512, 0]),
    ("listmount", |t| vec![request(t, usize::MAX), t.output(8), 1, 0]),
    ("quotactl", |t| vec![0x8000_0400, t.text("/no such device"), 0, t.room(4, Need::Maybe)]),
    ("quotactl_fd", |t| {
        // Sets a field that does not exist (Q_SETINFO). The kernel reads the structure before it
        // refuses the field.
        let mut limits = [0_i32; 6];
        limits[5] = i32::MIN;
        vec![open(c"/", O_RDONLY), 0x8000_0600, 0, t.ints(&limits)]
    }),
    ("acct", |t| vec![t.text(NONE)]),
    ("swapon", |t| vec![t.text(NONE), 0]),
    ("swapoff", |t| vec![t.text(NONE)]),
    ("landlock_create_ruleset", |t| vec![t.words(&[1]), 8, 0]),
    ("landlock_add_rule", |t| {
        let rights = 1_u64;
        let answer = raw(SYS_landlock_create_ruleset, &[&raw const rights as usize, 8, 0]);
        let Ok(rules) = usize::try_from(answer) else { return t.leave_out() };
        let root = (open(c"/", O_RDONLY) as i32).to_ne_bytes();
        vec![rules, 1, t.input(&[&rights.to_ne_bytes()[..], &root].concat()), 0]
    }),
];

/// Returns an `mnt_id_req` for the mount `mount`, or for the root mount if `mount` is 0.
fn request(trial: &mut Trial, mount: usize) -> usize {
    // STATX_MNT_ID_UNIQUE, and the index of the id in the result.
    const UNIQUE: usize = 0x4000;
    const MOUNT_ID_AT: usize = 0x90 / 8;
    let mut answer = [0_u64; 32];
    let path = c"/".as_ptr() as usize;
    must(SYS_statx, &[HERE, path, 0, UNIQUE, answer.as_mut_ptr() as usize]);
    let id = if mount == 0 { answer[MOUNT_ID_AT] as usize } else { mount };
    let parameter = usize::from(mount == 0) * 2;
    trial.words(&[24, id, parameter])
}

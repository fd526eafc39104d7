//! Rows of calls that concern names, attributes and mounts of files.

use crate::argument::Access::{Both, Read, Write};
use crate::argument::Argument::{self, Buffer, Plain, Pointee, Text};
use crate::argument::Pointee::XattrArgs;
use crate::argument::{Access, input, inputs, output, outputs};
use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named::NamedSpec;
use crate::options::{self, FSCONFIG_VALUE, MOUNT_ID};
use crate::sizes::{MOUNT_DATA, STAT, STATFS, STATX, TIMES};
use crate::spec::SimpleClass::{Direct, PathAt};
use crate::when::When::Always;

/// Returns the kind of the address of a `file_handle`: the length of the handle, its type, and the
/// handle.
const fn handle(access: Access) -> Argument {
    Buffer(access, Length::Own { at: 0, more: 8, least: 8, most: 136 })
}

/// An `mnt_id_req`, whose first field is its size.
const REQUEST: Argument = Buffer(Read, Length::Own { at: 0, more: 0, least: 24, most: 4096 });

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_fstat, Plain, output(STAT); brief, simple(Direct), needed),
    row!(SYS_newfstatat, Plain, Text, output(STAT); brief, simple(PathAt), needed),
    row!(SYS_statx, Plain, Text, Plain, Plain, output(STATX); brief, optional),
    row!(SYS_statfs, Text, output(STATFS)),
    row!(SYS_fstatfs, Plain, output(STATFS); needed),
    row!(SYS_faccessat, Plain, Text; brief, simple(PathAt), needed),
    row!(SYS_faccessat2, Plain, Text; brief, optional),
    row!(SYS_getcwd, outputs(Long(1), 1); brief),
    row!(SYS_chdir, Text),
    row!(SYS_fchdir),
    row!(SYS_chroot, Text),
    row!(SYS_mkdirat, Plain, Text),
    row!(SYS_mknodat, Plain, Text),
    row!(SYS_unlinkat, Plain, Text),
    row!(SYS_symlinkat, Text, Plain, Text),
    row!(SYS_linkat, Plain, Text, Plain, Text),
    row!(SYS_renameat, Plain, Text, Plain, Text),
    row!(SYS_renameat2, Plain, Text, Plain, Text),
    row!(SYS_readlinkat, Plain, Text, outputs(Int(3), 1); needed),
    row!(SYS_fchmod),
    row!(SYS_fchmodat, Plain, Text),
    row!(SYS_fchmodat2, Plain, Text),
    row!(SYS_fchown),
    row!(SYS_fchownat, Plain, Text),
    row!(SYS_utimensat, Plain, Text, input(TIMES)),
    row!(SYS_umask),
    row!(SYS_setxattr, Text, Text, inputs(Long(3), 1)),
    row!(SYS_lsetxattr, Text, Text, inputs(Long(3), 1)),
    row!(SYS_fsetxattr, Plain, Text, inputs(Long(3), 1)),
    row!(SYS_setxattrat, Plain, Text, Plain, Text, Pointee(XattrArgs(Read))),
    row!(SYS_getxattr, Text, Text, outputs(Long(3), 1)),
    row!(SYS_lgetxattr, Text, Text, outputs(Long(3), 1)),
    row!(SYS_fgetxattr, Plain, Text, outputs(Long(3), 1); needed),
    row!(SYS_getxattrat, Plain, Text, Plain, Text, Pointee(XattrArgs(Write))),
    row!(SYS_listxattr, Text, outputs(Long(2), 1)),
    row!(SYS_llistxattr, Text, outputs(Long(2), 1)),
    row!(SYS_flistxattr, Plain, outputs(Long(2), 1)),
    row!(SYS_listxattrat, Plain, Text, Plain, outputs(Long(4), 1)),
    row!(SYS_removexattr, Text, Text),
    row!(SYS_lremovexattr, Text, Text),
    row!(SYS_fremovexattr, Plain, Text),
    row!(SYS_removexattrat, Plain, Text, Plain, Text),
    row!(SYS_file_getattr, Plain, Text, outputs(Long(3), 1)),
    row!(SYS_file_setattr, Plain, Text, inputs(Long(3), 1)),
    row!(SYS_name_to_handle_at, Plain, Text, handle(Both), MOUNT_ID),
    row!(SYS_open_by_handle_at, Plain, handle(Read)),
    row!(SYS_mount, Text, Text, Text, Plain, input(MOUNT_DATA)),
    row!(SYS_umount2, Text),
    row!(SYS_pivot_root, Text, Text),
    row!(SYS_open_tree, Plain, Text),
    row!(SYS_open_tree_attr, Plain, Text, Plain, inputs(Long(4), 1)),
    row!(SYS_move_mount, Plain, Text, Plain, Text),
    row!(SYS_mount_setattr, Plain, Text, Plain, inputs(Long(4), 1)),
    row!(SYS_fsopen, Text),
    row!(SYS_fsconfig, Plain, Plain, Text, FSCONFIG_VALUE),
    row!(SYS_fsmount),
    row!(SYS_fspick, Plain, Text),
    row!(SYS_statmount, REQUEST, outputs(Long(2), 1)),
    row!(SYS_listmount, REQUEST, outputs(Long(2), 8)),
    row!(SYS_quotactl, Plain, Text, Plain, options::QUOTACTL),
    row!(SYS_quotactl_fd, Plain, Plain, Plain, options::QUOTACTL_FD),
    row!(SYS_acct, Text),
    row!(SYS_swapon, Text),
    row!(SYS_swapoff, Text),
    row!(SYS_landlock_create_ruleset, inputs(Long(1), 1)),
    row!(SYS_landlock_add_rule, Plain, Plain, options::LANDLOCK_RULE),
    row!(SYS_landlock_restrict_self; ends(Always)),
];

//! The numbers of system calls, including those that the `libc` crate lacks. Linux 6.18 defines the
//! numbers in `arch/x86/entry/syscalls/syscall_64.tbl` and `scripts/syscall.tbl`.
#![allow(non_upper_case_globals, reason = "names as the libc crate has them")]

pub(crate) use libc::*;

#[cfg(target_arch = "x86_64")]
mod own {
    use libc::c_long;
    pub(crate) const SYS_create_module: c_long = 174;
    pub(crate) const SYS_get_kernel_syms: c_long = 177;
    pub(crate) const SYS_query_module: c_long = 178;
    pub(crate) const SYS_io_pgetevents: c_long = 333;
    pub(crate) const SYS_uretprobe: c_long = 335;
    pub(crate) const SYS_uprobe: c_long = 336;
}

#[cfg(not(target_arch = "x86_64"))]
mod own {
    pub(crate) const SYS_io_pgetevents: libc::c_long = 292;
    pub(crate) const SYS_fchmodat2: libc::c_long = 452;
}

pub(crate) use own::*;

pub(crate) const SYS_cachestat: c_long = 451;
pub(crate) const SYS_map_shadow_stack: c_long = 453;
pub(crate) const SYS_futex_wake: c_long = 454;
pub(crate) const SYS_futex_wait: c_long = 455;
pub(crate) const SYS_futex_requeue: c_long = 456;
pub(crate) const SYS_statmount: c_long = 457;
pub(crate) const SYS_listmount: c_long = 458;
pub(crate) const SYS_lsm_get_self_attr: c_long = 459;
pub(crate) const SYS_lsm_set_self_attr: c_long = 460;
pub(crate) const SYS_lsm_list_modules: c_long = 461;
pub(crate) const SYS_setxattrat: c_long = 463;
pub(crate) const SYS_getxattrat: c_long = 464;
pub(crate) const SYS_listxattrat: c_long = 465;
pub(crate) const SYS_removexattrat: c_long = 466;
pub(crate) const SYS_open_tree_attr: c_long = 467;
pub(crate) const SYS_file_getattr: c_long = 468;
pub(crate) const SYS_file_setattr: c_long = 469;

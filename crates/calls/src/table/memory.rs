//! Rows of calls that change the address space. These calls change the mappings at the addresses in
//! their arguments, and do not touch the memory there.

use crate::argument::Access::{Read, Write};
use crate::argument::Argument::{Buffer, Plain};
use crate::argument::{inputs, mask, output, outputs};
use crate::count::Count::Long;
use crate::count::Length;
use crate::named::NamedSpec;
use crate::sizes::{INT, IOVEC, WORD};
use crate::spec::Special::AddressSpace;
use crate::when::When::{self, Always};

/// MAP_FIXED: the new mapping replaces mappings at its address.
const FIXED: When = When::Bits { argument: 3, bits: libc::MAP_FIXED as usize };

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_mmap; is(AddressSpace), changes(FIXED), brief),
    row!(SYS_munmap; is(AddressSpace), changes(Always), of_range, brief),
    row!(SYS_mremap; is(AddressSpace), changes(Always), brief),
    row!(SYS_mprotect; is(AddressSpace), changes(Always), of_range, brief),
    row!(SYS_pkey_mprotect; is(AddressSpace), changes(Always), of_range),
    row!(SYS_pkey_alloc),
    row!(SYS_pkey_free),
    row!(SYS_madvise; is(AddressSpace), of_range, brief, needed),
    row!(SYS_process_madvise, Plain, inputs(Long(2), IOVEC); is(AddressSpace), optional),
    row!(SYS_process_mrelease),
    row!(SYS_brk; is(AddressSpace), brief, needed),
    row!(SYS_mlock; is(AddressSpace), of_range),
    row!(SYS_mlock2; is(AddressSpace), of_range),
    row!(SYS_munlock; is(AddressSpace), needed),
    row!(SYS_mlockall; is(AddressSpace)),
    row!(SYS_munlockall; is(AddressSpace)),
    row!(SYS_mseal; is(AddressSpace), of_range),
    row!(SYS_msync; is(AddressSpace)),
    row!(SYS_mincore, Plain, Plain, Buffer(Write, Length::Pages(Long(1)));
        is(AddressSpace), brief, needed),
    row!(SYS_remap_file_pages; is(AddressSpace)),
    row!(SYS_map_shadow_stack; is(AddressSpace)),
    row!(SYS_userfaultfd; is(AddressSpace), optional),
    row!(SYS_memfd_secret),
    row!(SYS_membarrier),
    row!(SYS_shmget),
    row!(SYS_shmat; is(AddressSpace)),
    row!(SYS_shmdt; is(AddressSpace)),
    row!(SYS_mbind, Plain, Plain, Plain, mask(Read, Long(4), 1); is(AddressSpace)),
    row!(SYS_set_mempolicy, Plain, mask(Read, Long(2), 1)),
    row!(SYS_get_mempolicy, output(INT), mask(Write, Long(2), 1)),
    row!(SYS_set_mempolicy_home_node; is(AddressSpace)),
    row!(SYS_migrate_pages, Plain, Plain, mask(Read, Long(1), 1), mask(Read, Long(1), 1);
        is(AddressSpace)),
    row!(SYS_move_pages, Plain, Plain, inputs(Long(1), WORD), inputs(Long(1), INT),
        outputs(Long(1), INT); is(AddressSpace)),
];

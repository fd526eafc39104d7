//! The kernel's table of caches: `/proc/slabinfo`, version 2.1.

use crate::depot::Depot;
use crate::options::Tunables;
use crate::stat::CacheStat;
use std::fmt;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SlabInfo {
    /// The cache's name.
    pub name: String,
    /// The number of objects that users have.
    pub active_objs: usize,
    /// The number of objects that fit in the current slabs.
    pub num_objs: usize,
    /// The distance in bytes from one object to the next.
    pub objsize: usize,
    /// The number of objects in a slab.
    pub objperslab: usize,
    /// The number of pages in a slab.
    pub pagesperslab: usize,
    /// The maximum number of free objects that a thread keeps in slabs of its own.
    pub limit: u32,
    /// The minimum number of free objects that a thread gives up at a time.
    pub batchcount: u32,
    /// Always 0, because threads own whole slabs and share no objects.
    pub sharedfactor: u32,
    /// The number of slabs that contain an object in use.
    pub active_slabs: usize,
    /// The number of slabs.
    pub num_slabs: usize,
    /// Always 0, for the same reason as `sharedfactor`.
    pub sharedavail: usize,
}

impl SlabInfo {
    /// The heading lines above the table.
    pub const HEAD: &str = "slabinfo - version: 2.1\n\
        # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> \
        : tunables <limit> <batchcount> <sharedfactor> \
        : slabdata <active_slabs> <num_slabs> <sharedavail>\n";

    pub(crate) fn of(depot: &Depot) -> Self {
        let CacheStat { active_objects, objects, slabs, free_slabs, .. } = CacheStat::of(depot);
        let Tunables { limit, batchcount } = depot.threads.tunables();
        SlabInfo {
            name: depot.options.name.clone(),
            active_objs: active_objects,
            num_objs: objects,
            objsize: depot.shape.stride,
            objperslab: depot.shape.objects,
            pagesperslab: depot.shape.pages,
            limit,
            batchcount,
            sharedfactor: 0,
            active_slabs: slabs - free_slabs,
            num_slabs: slabs,
            sharedavail: 0,
        }
    }

    /// Returns the line as a JSON object.
    pub fn json(&self) -> String {
        match serde_json::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("a line of a name and numbers is refused as JSON: {error}"),
        }
    }
}

impl fmt::Display for SlabInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} \
             : tunables {:>4} {:>4} {:>4} : slabdata {:>6} {:>6} {:>6}",
            self.name,
            self.active_objs,
            self.num_objs,
            self.objsize,
            self.objperslab,
            self.pagesperslab,
            self.limit,
            self.batchcount,
            self.sharedfactor,
            self.active_slabs,
            self.num_slabs,
            self.sharedavail,
        )
    }
}

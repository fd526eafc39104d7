//! Builds a device's table from its `Config`, calculates the size of the device's memory, and locks
//! the device for a fork.

use crate::backing::Store;
use crate::block::BlockVersions;
use crate::counters::Counters;
use crate::job::Jobs;
use crate::streams::Streams;
use crate::table::Table;
use crate::total_limit::{Counted, TotalLimit, pages_for};
use crate::{Compaction, Config, Error, Fork, SLOT_BYTES};
use page::fork::{AtFork, Step};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use zsmalloc::{Columns, EntryPool};

/// Returns a new table as `config` requires.
pub(crate) fn build_table(config: Config) -> Result<Arc<Table>, Error> {
    let layout = config.layout()?;
    let streams = Streams::new(&config, layout)?;
    let (algorithms, writeback) = (config.algorithms(), config.writeback.clone());
    let huge_size = config.huge_size(layout, 0)?;
    let store = config.backing.clone().map(Store::new).transpose()?.map(Arc::new);
    let total = Arc::new(TotalLimit::new(config.total_limit, config.supply));
    let pages = page::Config {
        limit: config.mem_limit.map(pages_for),
        supply: Some(total.clone()),
        in_dumps: config.dump,
        in_children: config.fork == Fork::Copy,
        ..page::Config::default()
    };
    let pool = zsmalloc::Config { geometry: config.geometry.with_order(layout.order()), pages };
    let columns = Columns { access_time: config.track_access, checksum: config.checksums };
    let pool = Arc::new(EntryPool::new(pool, layout.entries(), columns)?);
    if config.compaction == Compaction::Auto {
        pool.compact_in_background();
    }
    let table = Arc::new(Table {
        columns,
        huge_size,
        pool,
        counters: Counters::new(streams.len()),
        streams,
        total: total.clone(),
        disksize: layout.all_slots() * SLOT_BYTES as u64,
        layout,
        versions: BlockVersions::new(layout.has_blocks()),
        algorithms,
        jobs: Jobs::default(),
        store,
        writeback,
        is_left_behind: AtomicBool::new(false),
    });
    let weak: Weak<Table> = Arc::downgrade(&table);
    page::fork::register(weak.clone(), config.fork_turn);
    total.count_with(weak);
    Ok(table)
}

impl Counted for Table {
    fn bytes(&self) -> u64 {
        let own = size_of_val(self) + self.streams.bytes() + self.counters.bytes();
        let own = own + self.versions.bytes() + self.store.as_ref().map_or(0, |of| of.bytes());
        (self.pool.bytes() + own) as u64
    }

    fn page_limit(&self) -> Option<usize> {
        self.pool.pages().limit()
    }
}

/// A fork locks all streams. Each request holds a stream, so no request is under way during a fork.
impl AtFork for Table {
    fn prepare(&self) {
        self.jobs.at_fork(Step::Lock);
        self.streams.at_fork(Step::Lock);
        self.pool.prepare();
        self.store.iter().for_each(|store| store.at_fork(Step::Lock));
    }

    fn in_parent(&self) {
        self.store.iter().for_each(|store| store.at_fork(Step::Unlock));
        self.pool.in_parent();
        self.streams.at_fork(Step::Unlock);
        self.jobs.at_fork(Step::Unlock);
    }

    fn in_child(&self) {
        self.store.iter().for_each(|store| store.unlock_in_child());
        self.pool.in_child();
        self.jobs.abandon_in_child();
        self.is_left_behind.store(!self.pool.is_in_children(), Relaxed);
        self.streams.at_fork(Step::Unlock);
    }
}

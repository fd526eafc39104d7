/* A page cache for SQLite (SQLITE_CONFIG_PCACHE2) whose pages can exceed its limit of memory. */
#ifndef PCACHE_H
#define PCACHE_H

#include "uzram.h"

/*
 * Creates a region for `pages` pages of 4096 bytes, of which the region holds at most `limit`
 * bytes, and makes SQLite use the region. Must be called before all functions of SQLite. Returns
 * 0, or an errno.
 */
int pcache_install(uint64_t pages, uint64_t limit);

/* Fills in the statistics of the memory. */
void pcache_stat(struct uzram_region_stat *stat);

#endif

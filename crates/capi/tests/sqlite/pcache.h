/* A page cache for SQLite (SQLITE_CONFIG_PCACHE2) that has more pages than memory. */
#ifndef PCACHE_H
#define PCACHE_H

#include "uzram.h"

/*
 * Makes the memory for `pages` pages of 4096 bytes, `limit` bytes of which are held at most, and
 * has SQLite use it. Call it before anything else of SQLite. Returns 0, or an errno.
 */
int pcache_install(uint64_t pages, uint64_t limit);

/* Tells what the memory holds. */
void pcache_stat(struct uzram_region_stat *stat);

#endif

/*
 * libuzram: compressed memory for programs, in C99 and C++.
 *
 *   uzram_device   a disk that keeps its data compressed in memory
 *   uzram_pool     a store of objects of all sizes; packs them densely, without compression
 *   uzram_cache    an allocator for many objects of one size; as fast as malloc, and denser
 *   uzram_lru      a cache that compresses values, and keeps the most recently used ones
 *   uzram_region   memory that compresses its cold parts, and decompresses them at a touch
 *
 * Results. A function that returns int returns 0 or a negative errno. After a failure,
 * uzram_error_message() describes what happened, why, and what to do about it. Any function can
 * return these values:
 *   -EINVAL   a pointer that must not be NULL is NULL, or a length or a value is invalid
 *   -ENOSPC   a limit that was set is reached; no stored data are lost
 *   -ENOMEM   the system has no more memory
 *   -ENODEV   this process is a child of fork, and the data stayed with its parent
 *   -E2BIG    a struct sets a field that this version of the library does not support
 *   -ENOTRECOVERABLE   a bug in the library
 * Unless a function states otherwise, a call that fails leaves its output arguments unchanged.
 *
 * Structs begin with their size, so that they can grow. Set `size` to the struct's sizeof, and set
 * unneeded fields to 0, or use UZRAM_INIT. In options, 0 selects the default. In a struct that a
 * function fills in, set `size`. The function writes 0 to fields that this version of the library
 * does not support.
 *
 * Sizes, offsets and limits are in bytes; a limit of 0 means no limit.
 *
 * Threads. Any function can be called from any thread at any time, except *_destroy, which must
 * follow all other calls for the object. Memory passed to a call must not change during the call;
 * it can lie in a region. A cancelled thread (pthread_cancel) finishes its call or its touch of a
 * region before it exits.
 *
 * Fork. After a fork, parent and child each have a copy of every object, unless an option changes
 * this. Other threads may be executing functions of the library during the fork. A child of vfork
 * must not call the library.
 *
 * Signals. Don't call the library from a signal handler.
 *
 * Memory. If the system refuses memory for the data that the library manages, the call fails with
 * -ENOMEM. If malloc returns NULL for the few bytes of an object or a message, the program is
 * aborted. A call can use 128 KiB of its thread's stack.
 */
#ifndef UZRAM_H
#define UZRAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. Before 1.0, each minor version can change the interface. */
#define UZRAM_VERSION_MAJOR 0
#define UZRAM_VERSION_MINOR 1
#define UZRAM_VERSION_PATCH 0

/* struct uzram_pool_options options = UZRAM_INIT(struct uzram_pool_options); sets only the size. */
#ifdef __cplusplus
#define UZRAM_INIT(type) uzram_init_<type>()
#else
#define UZRAM_INIT(type) {.size = sizeof(type)}
#endif

/* Returns the version of the library: major << 16 | minor << 8 | patch. */
uint32_t uzram_version(void);

/*
 * Returns the message of this thread's last failed call, a line in English, or "" if no call has
 * failed. The message stays until this thread's next failure, or until the thread exits.
 */
const char *uzram_error_message(void);

/* ---- Devices -------------------------------------------------------------------------------- */

typedef struct uzram_device uzram_device;

/* Records the time of each slot's last access, for uzram_device_mark_idle: 4 bytes per slot. */
#define UZRAM_DEVICE_TRACK_ACCESS 1
/* Stores checksums of the data, which are verified when the data are read: 4 bytes per slot. */
#define UZRAM_DEVICE_CHECKSUMS 2
/* After a fork the data stay with the parent; a child's calls fail with -ENODEV. */
#define UZRAM_DEVICE_LEAVE_AT_FORK 4

struct uzram_device_options {
    uint64_t size;                /* sizeof(struct uzram_device_options) */
    uint64_t disksize;            /* bytes of the device, which use no memory yet */
    uint64_t mem_limit;           /* maximum bytes of pages with compressed data */
    uint64_t total_limit;         /* maximum bytes of all memory of the device */
    const char *algorithm;        /* "lz4" (also if NULL), "lz4hc" or "zstd" */
    const char *recompression[3]; /* algorithms for cold data, priorities 1 to 3; or NULL */
    const char *backing_path;     /* a file or block device of this device only; or NULL */
    uint64_t backing_bytes;       /* the size of a new file; 0: the file exists, and its contents
                                     are overwritten. The caller removes the file. */
    int32_t level;                /* the algorithm's level; 0 means the default */
    uint32_t block;               /* bytes of the unit that is compressed: 4096 to 65536;
                                     0 means 4096 */
    uint32_t streams;             /* threads that compress in parallel; 0: one per processor */
    uint32_t flags;               /* UZRAM_DEVICE_... */
};

struct uzram_device_stat {
    uint64_t size;            /* sizeof(struct uzram_device_stat) */
    uint64_t disksize;        /* bytes of the device */
    uint64_t orig_data_size;  /* bytes stored, before compression */
    uint64_t compr_data_size; /* bytes stored, after compression */
    uint64_t mem_used;        /* bytes of pages with compressed data */
    uint64_t mem_used_max;    /* the maximum of mem_used so far */
    uint64_t mem_limit;       /* the limit of mem_used; 0 means none */
    uint64_t mem_total;       /* bytes of all memory of the device */
    uint64_t same_pages;      /* slots that repeat one word and use no page */
    uint64_t huge_pages;      /* slots stored uncompressed, because they hardly shrink */
    uint64_t pages_compacted; /* pages freed by compaction so far */
    uint64_t failed_reads;    /* slots that could not be read */
    uint64_t failed_writes;   /* slots that could not be written */
    uint64_t backing_bytes;   /* bytes of the backing file in use */
};

/*
 * Creates a device, which reads as zeros and uses no memory for data yet. -EEXIST: the backing file
 * already exists. -EBUSY: another device uses the backing file. After a fork, data in the backing
 * file stay with the parent: a call of the child that needs such data fails with -ENODEV.
 */
int uzram_device_new(const struct uzram_device_options *options, uzram_device **device);

/* Destroys a device and its data. NULL is ignored. */
void uzram_device_destroy(uzram_device *device);

/*
 * Writes `len` bytes at `offset`. -EINVAL: the range extends past the device's end, and nothing was
 * written. -ENOSPC, -ENOMEM: no memory was available for a slot, whose number is in the message.
 * The slots before this slot were written; the slot and all later slots keep their contents.
 */
int uzram_device_write(uzram_device *device, uint64_t offset, const void *bytes, uint64_t len);

/*
 * Reads `len` bytes at `offset`; bytes that were never written, or were discarded, read as zeros.
 * -EINVAL: the range extends past the device's end. -EIO: data are damaged, or the backing file
 * failed; a part of the data may be in `bytes`.
 */
int uzram_device_read(uzram_device *device, uint64_t offset, void *bytes, uint64_t len);

/*
 * Sets `len` bytes at `offset` to zero. Slots of 4096 bytes that the range covers completely are
 * freed first. -EINVAL: the range extends past the device's end, and nothing was changed. -ENOSPC,
 * -ENOMEM: the range covers only a part of a slot or block, and no memory is available for the
 * slot's other bytes, or for entries of the block's other slots (8 bytes each). The slot then keeps
 * its contents.
 */
int uzram_device_discard(uzram_device *device, uint64_t offset, uint64_t len);

/* Fills in the statistics of a device. */
int uzram_device_stat(uzram_device *device, struct uzram_device_stat *stat);

/* Sets mem_limit. While memory use exceeds the limit, requests that need more memory fail. */
int uzram_device_set_mem_limit(uzram_device *device, uint64_t bytes);

/* Sets total_limit. While memory use exceeds the limit, requests that need more memory fail. */
int uzram_device_set_total_limit(uzram_device *device, uint64_t bytes);

/*
 * Moves data together to free pages. Stores the number of freed bytes in `freed`, unless `freed` is
 * NULL.
 */
int uzram_device_compact(uzram_device *device, uint64_t *freed);

/*
 * Marks slots as idle that were not read or written for more than `seconds` seconds. If `seconds`
 * is 0, marks all slots; other values require UZRAM_DEVICE_TRACK_ACCESS. A read or write of a slot
 * removes its mark.
 */
int uzram_device_mark_idle(uzram_device *device, uint64_t seconds);

/* The slots and blocks that a job processes. */
#define UZRAM_WHICH_ALL 0
#define UZRAM_WHICH_IDLE 1           /* marked idle, and not used since */
#define UZRAM_WHICH_HUGE 2           /* stored uncompressed */
#define UZRAM_WHICH_HUGE_IDLE 3      /* idle and huge */
#define UZRAM_WHICH_INCOMPRESSIBLE 4 /* no algorithm makes their data smaller */

struct uzram_recompress_options {
    uint64_t size;      /* sizeof(struct uzram_recompress_options) */
    uint64_t threshold; /* data of at least this length are tried; results must be below it */
    uint64_t max_pages; /* maximum slots that are tried; 0 means all */
    uint32_t priority;  /* the algorithm: 1 to 3 (0 means 1) */
    uint32_t which;     /* UZRAM_WHICH_... */
};

struct uzram_recompressed {
    uint64_t size;        /* sizeof(struct uzram_recompressed) */
    uint64_t tried;       /* slots and blocks that were tried */
    uint64_t smaller;     /* slots and blocks that became smaller */
    uint64_t saved_bytes; /* bytes of memory saved */
    uint64_t touched;     /* used by other threads during the job, so not replaced */
    uint64_t damaged;     /* damaged, so not replaced */
};

/*
 * Compresses slots and blocks again, by one of the algorithms in `recompression` of the options.
 * Other threads can use the device during the job. `done` can be NULL. -EAGAIN: another job is
 * running.
 */
int uzram_device_recompress(uzram_device *device, const struct uzram_recompress_options *options,
                            struct uzram_recompressed *done);

struct uzram_written_back {
    uint64_t size;    /* sizeof(struct uzram_written_back) */
    uint64_t slots;   /* slots that were moved to the backing file */
    uint64_t bytes;   /* bytes that these slots used in memory, compressed */
    uint64_t blocks;  /* blocks of 4096 bytes that were written */
    uint64_t touched; /* objects used by other threads during the job, still in memory */
    uint64_t damaged; /* objects that are damaged, still in memory */
};

/*
 * Moves slots and blocks from memory to the backing file; reads of these slots then read the
 * backing file. `done` can be NULL. -ENODEV: the device has no backing file. -ENOSPC: the backing
 * file is full. -EAGAIN: another job is running.
 */
int uzram_device_write_back(uzram_device *device, uint32_t which, struct uzram_written_back *done);

/*
 * Saves a device to a file, in compressed form. An existing file is replaced after the new file is
 * durable. Slots that could not be read are left out; their number is stored in `lost_slots`,
 * unless `lost_slots` is NULL.
 */
int uzram_device_save(uzram_device *device, const char *path, uint64_t *lost_slots);

/* Restores the intact parts of a damaged file. The damaged parts then read as zeros. */
#define UZRAM_RESTORE_SALVAGE 1

/*
 * Restores a saved file to an empty device, which must not be smaller than the saved device; other
 * options can differ. Other calls must not use the device during the restore. -EBADMSG: the file is
 * damaged, or is not a saved device; the device is then empty. -ENOTEMPTY, -ENOSPC: the device is
 * not empty, or is too small. Stores the number of lost bytes in `lost_bytes`, unless it is NULL.
 */
int uzram_device_restore(uzram_device *device, const char *path, uint32_t flags,
                         uint64_t *lost_bytes);

/*
 * Cancels the job of another thread, whose call then soon returns -ECANCELED. Does nothing if no
 * job is running.
 */
int uzram_device_cancel_job(uzram_device *device);

/* ---- Pools ---------------------------------------------------------------------------------- */

typedef struct uzram_pool uzram_pool;
typedef struct uzram_pool_pinned uzram_pool_pinned;

/* The pool compacts itself when that is worthwhile, on a separate thread. */
#define UZRAM_POOL_COMPACT_IN_BACKGROUND 1
/* After a fork the objects stay with the parent; a child's calls fail with -ENODEV. */
#define UZRAM_POOL_LEAVE_AT_FORK 2

struct uzram_pool_options {
    uint64_t size;  /* sizeof(struct uzram_pool_options) */
    uint64_t limit; /* maximum bytes of pages with objects; rounded up to pages */
    uint64_t flags; /* UZRAM_POOL_... */
};

struct uzram_pool_stat {
    uint64_t size;             /* sizeof(struct uzram_pool_stat) */
    uint64_t objects;          /* objects stored */
    uint64_t pages_bytes;      /* bytes of pages with objects */
    uint64_t total_bytes;      /* bytes of all memory of the pool */
    uint64_t freeable_bytes;   /* bytes of pages that compaction could free */
    uint64_t object_bytes_max; /* bytes of the largest object that can be stored */
};

/* Creates a pool, without pages. */
int uzram_pool_new(const struct uzram_pool_options *options, uzram_pool **pool);

/* Destroys a pool. The pool and its objects are freed after the last pin ends. NULL is ignored. */
void uzram_pool_destroy(uzram_pool *pool);

/*
 * Stores a copy of `len` bytes, 1 up to object_bytes_max. Sets `handle` to the object's handle,
 * which is never 0. Each handle identifies one object of one pool; after the object is freed, calls
 * with the handle fail with -ESTALE.
 */
int uzram_pool_store(uzram_pool *pool, const void *bytes, uint64_t len, uint64_t *handle);

/*
 * Copies at most `len` bytes from the start of an object to `bytes`. Stores the object's length in
 * `object_bytes`, unless it is NULL.
 */
int uzram_pool_read(uzram_pool *pool, uint64_t handle, void *bytes, uint64_t len,
                    uint64_t *object_bytes);

/*
 * Pins an object: its place and contents do not change until it is unpinned. Stores the object's
 * address in `bytes`, and its length in `object_bytes`, unless `object_bytes` is NULL. Any thread
 * can read the object and unpin it, but no thread must write to this address.
 *
 * uzram_pool_write and uzram_pool_free of a pinned object wait until the object is unpinned. Later
 * calls for this object wait until the waiting call has returned. So a thread that holds a pin must
 * not make any call for the pinned object except uzram_pool_unpin. An object has at most six pins
 * (uzram_pool_read takes one for its copy); a call that needs another pin waits. Calls for other
 * objects do not wait. Compaction skips the pages of pinned objects.
 *
 * A child of fork has no pins: the child must not read objects that its parent pinned.
 * uzram_pool_unpin in the child only frees the memory of the pin.
 */
int uzram_pool_pin(uzram_pool *pool, uint64_t handle, const void **bytes, uint64_t *object_bytes,
                   uzram_pool_pinned **pinned);

/* Ends a pin. The bytes of the object must not be read any more. NULL is ignored. */
void uzram_pool_unpin(uzram_pool_pinned *pinned);

/* Overwrites the first `len` bytes of an object, which keeps its length. */
int uzram_pool_write(uzram_pool *pool, uint64_t handle, const void *bytes, uint64_t len);

/* Frees an object. */
int uzram_pool_free(uzram_pool *pool, uint64_t handle);

/* Sets the limit. While memory use exceeds the limit, requests that need more pages fail. */
int uzram_pool_set_limit(uzram_pool *pool, uint64_t bytes);

/*
 * Moves objects together to free pages. Stores the number of freed bytes in `freed`, unless `freed`
 * is NULL.
 */
int uzram_pool_compact(uzram_pool *pool, uint64_t *freed);

/* Fills in the statistics of a pool. */
int uzram_pool_stat(uzram_pool *pool, struct uzram_pool_stat *stat);

/* ---- Object caches -------------------------------------------------------------------------- */

typedef struct uzram_cache uzram_cache;

/* Detects writes beyond an object or to a free object: uzram_cache_free and _alloc return -EIO. */
#define UZRAM_CACHE_DEBUG 1

struct uzram_cache_options {
    uint64_t size;         /* sizeof(struct uzram_cache_options) */
    uint64_t object_bytes; /* bytes of an object, at least 1 */
    uint64_t align;        /* a power of two up to a page; 0 means 16, as in malloc */
    uint64_t limit;        /* maximum bytes of pages with objects; rounded up to pages */
    const char *name;      /* the name in messages; or NULL */
    uint64_t flags;        /* UZRAM_CACHE_... */
};

struct uzram_cache_stat {
    uint64_t size;        /* sizeof(struct uzram_cache_stat) */
    uint64_t objects;     /* objects in use; may include some that other threads freed */
    uint64_t room;        /* objects that fit in the slabs */
    uint64_t slabs;       /* slabs */
    uint64_t refused;     /* frees that were refused */
    uint64_t total_bytes; /* bytes of all memory of the cache */
};

/* Creates a cache, without slabs. */
int uzram_cache_new(const struct uzram_cache_options *options, uzram_cache **cache);

/* Destroys a cache. -EBUSY: objects are in use, and the cache stays. NULL is ignored. */
int uzram_cache_destroy(uzram_cache *cache);

/*
 * Allocates an object. Its bytes are zero, or unchanged since the object was freed, or a pattern
 * (with UZRAM_CACHE_DEBUG). -EIO, with that flag: a free object was written to; the cache never
 * allocates this object again.
 */
int uzram_cache_alloc(uzram_cache *cache, void **object);

/*
 * Frees an object, on any thread. NULL is ignored. -EINVAL: the pointer is not an object of this
 * cache, or the object is already free. A double free is detected if the object was not allocated
 * again. No other thread may free objects or shrink the cache at the same time as a double free.
 * -EIO, with UZRAM_CACHE_DEBUG: the object was written to beyond its end.
 */
int uzram_cache_free(uzram_cache *cache, void *object);

/* Frees empty slabs. Stores the number of freed bytes in `freed`, unless `freed` is NULL. */
int uzram_cache_shrink(uzram_cache *cache, uint64_t *freed);

/* Fills in the statistics of a cache. */
int uzram_cache_stat(uzram_cache *cache, struct uzram_cache_stat *stat);

/* ---- LRU caches ----------------------------------------------------------------------------- */

typedef struct uzram_lru uzram_lru;

/* Compresses values without a dictionary. */
#define UZRAM_LRU_NO_DICTIONARY 1

/*
 * Receives an evicted key and its value, which are freed when the function returns. The function is
 * called during the uzram_lru_put that evicts the value, on the same thread. The function can call
 * the library.
 */
typedef void (*uzram_lru_evicted)(void *context, const void *key, uint64_t key_bytes,
                                  const void *value, uint64_t value_bytes);

struct uzram_lru_options {
    uint64_t size;              /* sizeof(struct uzram_lru_options) */
    uint64_t limit;             /* maximum bytes of all memory of the cache; 0.5 MB is enough */
    const char *algorithm;      /* "zstd" (also if NULL), "lz4" or "lz4hc" */
    const void *dictionary;     /* a dictionary; if NULL, the cache trains one if useful */
    uint64_t dictionary_bytes;  /* bytes of `dictionary` */
    uzram_lru_evicted on_evict; /* receives evicted values; or NULL */
    void *context;              /* the first argument of `on_evict` */
    int32_t level;              /* the algorithm's level; 0 means its default */
    uint32_t flags;             /* UZRAM_LRU_... */
};

struct uzram_lru_stat {
    uint64_t size;             /* sizeof(struct uzram_lru_stat) */
    uint64_t entries;          /* values */
    uint64_t limit;            /* the limit of `held` */
    uint64_t held;             /* bytes of all memory of the cache */
    uint64_t stored;           /* bytes of the values before compression */
    uint64_t compressed;       /* bytes of the values after compression */
    uint64_t dictionary_bytes; /* bytes of the dictionary in use */
    uint64_t hits;             /* calls of uzram_lru_get that found a value */
    uint64_t misses;           /* calls of uzram_lru_get that found no value */
    uint64_t evictions;        /* values that were evicted */
};

/*
 * Creates a cache, which compresses values, and evicts the least recently used ones to stay within
 * its limit. The limit includes keys, tables, the dictionary, and buffers. -EINVAL: the limit is
 * too small; the message contains the minimum.
 */
int uzram_lru_new(const struct uzram_lru_options *options, uzram_lru **lru);

/* Destroys a cache. NULL is ignored. */
void uzram_lru_destroy(uzram_lru *lru);

/*
 * Stores copies of a key and its value, and makes the value the most recently used. A key consists
 * of any number of arbitrary bytes. An old value of the key is replaced. -ENOSPC: the value does
 * not fit, even in an empty cache; the old value of the key stays.
 */
int uzram_lru_put(uzram_lru *lru, const void *key, uint64_t key_bytes, const void *value,
                  uint64_t value_bytes);

/*
 * Copies at most `len` bytes from the start of a value to `value`, and makes the value the most
 * recently used. Stores the value's length in `value_bytes`, unless it is NULL. -ENOENT: the key
 * has no value.
 */
int uzram_lru_get(uzram_lru *lru, const void *key, uint64_t key_bytes, void *value, uint64_t len,
                  uint64_t *value_bytes);

/* Does the same as uzram_lru_get, without making the value the most recently used. */
int uzram_lru_peek(uzram_lru *lru, const void *key, uint64_t key_bytes, void *value, uint64_t len,
                   uint64_t *value_bytes);

/* Removes the value of a key. -ENOENT: the key has no value. */
int uzram_lru_remove(uzram_lru *lru, const void *key, uint64_t key_bytes);

/* Removes all values, without calling `on_evict`. */
int uzram_lru_clear(uzram_lru *lru);

/* Fills in the statistics of a cache. */
int uzram_lru_stat(uzram_lru *lru, struct uzram_lru_stat *stat);

/* ---- Regions -------------------------------------------------------------------------------- */

typedef struct uzram_region uzram_region;
typedef struct uzram_region_locked uzram_region_locked;

/* A child always gets a copy of the region. With UZRAM_REGION_USERFAULTFD, each fork makes all
 * blocks resident, whatever the limit is. */
#define UZRAM_REGION_COPY_AT_FORK 1
/* Stores checksums of evicted data, which are verified when the data become resident again. */
#define UZRAM_REGION_CHECKSUMS 2
/*
 * Handles faults by a userfaultfd. If the system refuses a userfaultfd, uzram_region_new fails.
 * Unless UZRAM_REGION_COPY_AT_FORK is set, a child has no data of the region, and a touch of the
 * region kills the child.
 */
#define UZRAM_REGION_USERFAULTFD 4

struct uzram_region_options {
    uint64_t size;         /* sizeof(struct uzram_region_options) */
    uint64_t bytes;        /* bytes of the region */
    uint64_t limit;        /* maximum of `held`, which includes 1.6 to 9 MB of buffers;
                              locked memory can exceed it */
    uint64_t store_limit;  /* maximum bytes of pages with evicted data */
    const char *algorithm; /* "lz4" (also if NULL), "lz4hc" or "zstd" */
    int32_t level;         /* the algorithm's level; 0 means its default */
    uint32_t block;        /* the unit of eviction in bytes: 4096 (also if 0) to 65536 */
    uint64_t flags;        /* UZRAM_REGION_... */
};

struct uzram_region_stat {
    uint64_t size;       /* sizeof(struct uzram_region_stat) */
    uint64_t held;       /* bytes of resident and evicted data, tables, buffers */
    uint64_t held_max;   /* the maximum of `held` so far */
    uint64_t limit;      /* the limit of `held`; 0 means none */
    uint64_t resident;   /* bytes that are resident */
    uint64_t stored;     /* bytes of evicted data, before compression */
    uint64_t compressed; /* bytes of evicted data, after compression */
    uint64_t device;     /* bytes of all memory for evicted data */
    uint64_t filled;     /* evicted blocks that became resident again so far */
    uint64_t evicted;    /* blocks evicted so far */
};

/*
 * Creates a region whose bytes are zero. The program's threads read and write it like any other
 * memory. Three restrictions apply:
 *
 * - A system call on parts that are not resident fails with EFAULT: lock the memory that you pass
 *   to a system call.
 * - A touch of a part that is not resident raises SIGSEGV, which the library handles. So a thread
 *   must not block that signal while it touches a region, and a handler's sa_mask must not contain
 *   it. A program's own SIGSEGV handler must be installed before the first region is created. In a
 *   program that forks, a handler of any signal must touch only locked memory.
 * - Memory that can't be evicted can exceed the limit: data that do not shrink, compressed data
 *   that do not fit, and locked memory. When the limit is lowered, or a lock ends, the region
 *   returns to its limit within about half a second. When incompressible data become compressible,
 *   it returns to its limit within some seconds.
 */
int uzram_region_new(const struct uzram_region_options *options, uzram_region **region);

/* Destroys a region. The region's memory is unmapped after its last lock ends. NULL is ignored. */
void uzram_region_destroy(uzram_region *region);

/* Returns the address of a region's first byte, or NULL if `region` is NULL. */
void *uzram_region_address(uzram_region *region);

/* Returns the size of a region in bytes, or 0 if `region` is NULL. */
uint64_t uzram_region_bytes(uzram_region *region);

/*
 * Makes a range resident, and keeps it resident until it is unlocked, so that system calls can use
 * it. If locked memory does not fit within the limit, the lock is not refused, and the limit is
 * exceeded. All other parts are then evicted, and the limit holds again after enough memory is
 * unlocked.
 */
int uzram_region_lock(uzram_region *region, uint64_t offset, uint64_t len,
                      uzram_region_locked **locked);

/* Ends a lock, on any thread. NULL is ignored. */
void uzram_region_unlock(uzram_region_locked *locked);

/* Makes a range resident. */
int uzram_region_prefetch(uzram_region *region, uint64_t offset, uint64_t len);

/* The expected use of a range. */
#define UZRAM_ADVICE_COLD 0 /* not used soon: the range is evicted now */
#define UZRAM_ADVICE_HOT 1  /* used soon and often: made resident, and not evicted soon */

/* Announces the expected use of a range. */
int uzram_region_advise(uzram_region *region, uint64_t offset, uint64_t len, uint32_t advice);

/*
 * Sets a range to zero. Threads must not use the range during the call. -EBUSY: a block that lies
 * completely in the range is locked, and nothing was changed. If another thread locked the block
 * during the call, the blocks before this block may already be zero.
 */
int uzram_region_discard(uzram_region *region, uint64_t offset, uint64_t len);

/*
 * Evicts the coldest `bytes` bytes, rounded up to whole blocks. Stores the number of evicted bytes
 * in `evicted`, unless it is NULL. This number is less than `bytes` if no more blocks can be
 * evicted.
 */
int uzram_region_reclaim(uzram_region *region, uint64_t bytes, uint64_t *evicted);

/* Sets the limit, to which the region then evicts memory. -EINVAL: `bytes` is too small. */
int uzram_region_set_limit(uzram_region *region, uint64_t bytes);

/* Fills in the statistics of a region. */
int uzram_region_stat(uzram_region *region, struct uzram_region_stat *stat);

#ifdef __cplusplus
} /* extern "C" */

template <typename type> static inline type uzram_init_() {
    type empty = type();
    empty.size = sizeof(type);
    return empty;
}
#endif

#endif

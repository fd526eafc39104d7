/*
 * A page's bytes lie in a region, and stay at one address as SQLite requires. A page that SQLite
 * pins is locked in the region, because SQLite passes the page to system calls. Unpinned pages may
 * be compressed. An object cache holds SQLite's other data for each page.
 *
 *   cache -- buckets by key --> page (an object) -- memory: 4096 bytes of the region
 *         `- unpinned pages, the least recently used first
 */
#include "pcache.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096, BUCKETS = 8192 };

struct page {
    sqlite3_pcache_page page; /* SQLite's part; first, so that both have one address */
    uint64_t slot;            /* the page's slot in the region */
    unsigned key;
    uzram_region_locked *locked; /* the lock while the page is pinned */
    struct page *next;           /* the next page in the bucket */
    struct page *older, *younger;
};

struct cache {
    uzram_cache *objects;
    struct page *buckets[BUCKETS];
    struct page *oldest, *youngest;
    unsigned count, most;
    size_t extra_bytes;
    int purgeable;
};

static struct {
    uzram_region *region;
    uint64_t *free_slots, free_count;
    sqlite3_mutex *mutex;
} memory;

static uint64_t take_slot(void)
{
    uint64_t slot = UINT64_MAX;
    sqlite3_mutex_enter(memory.mutex);
    if (memory.free_count > 0)
        slot = memory.free_slots[--memory.free_count];
    sqlite3_mutex_leave(memory.mutex);
    return slot;
}

static void give_slot(uint64_t slot)
{
    sqlite3_mutex_enter(memory.mutex);
    memory.free_slots[memory.free_count++] = slot;
    sqlite3_mutex_leave(memory.mutex);
}

static int pin(struct page *page)
{
    return uzram_region_lock(memory.region, page->slot * PAGE_BYTES, PAGE_BYTES, &page->locked);
}

static void leave_ages(struct cache *cache, struct page *page)
{
    *(page->older ? &page->older->younger : &cache->oldest) = page->younger;
    *(page->younger ? &page->younger->older : &cache->youngest) = page->older;
}

static void add(struct cache *cache, struct page *page, unsigned key)
{
    struct page **bucket = &cache->buckets[key % BUCKETS];
    page->key = key;
    page->next = *bucket;
    *bucket = page;
}

static void leave_bucket(struct cache *cache, struct page *page)
{
    struct page **at = &cache->buckets[page->key % BUCKETS];
    while (*at != page)
        at = &(*at)->next;
    *at = page->next;
}

static struct page *found(struct cache *cache, unsigned key)
{
    struct page *page = cache->buckets[key % BUCKETS];
    while (page != NULL && page->key != key)
        page = page->next;
    return page;
}

/* Drops a page, pinned or not. */
static void drop(struct cache *cache, struct page *page)
{
    if (page->locked != NULL)
        uzram_region_unlock(page->locked);
    else
        leave_ages(cache, page);
    leave_bucket(cache, page);
    give_slot(page->slot);
    if (uzram_cache_free(cache->objects, page) != 0)
        abort();
    cache->count--;
}

static struct page *made(struct cache *cache, unsigned key)
{
    void *object;
    struct page *page;
    uint64_t slot = take_slot();
    if (slot == UINT64_MAX)
        return NULL;
    if (uzram_cache_alloc(cache->objects, &object) != 0) {
        give_slot(slot);
        return NULL;
    }
    page = (struct page *)object;
    page->slot = slot;
    page->page.pBuf = (char *)uzram_region_address(memory.region) + slot * PAGE_BYTES;
    page->page.pExtra = page + 1;
    memset(page->page.pExtra, 0, cache->extra_bytes);
    if (pin(page) != 0) {
        give_slot(slot);
        uzram_cache_free(cache->objects, page);
        return NULL;
    }
    add(cache, page, key);
    cache->count++;
    return page;
}

static int x_init(void *unused)
{
    (void)unused;
    memory.mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
    return SQLITE_OK;
}

static void x_shutdown(void *unused)
{
    (void)unused;
}

static sqlite3_pcache *x_create(int page_bytes, int extra_bytes, int purgeable)
{
    struct uzram_cache_options options = UZRAM_INIT(struct uzram_cache_options);
    struct cache *cache;
    if (page_bytes > PAGE_BYTES || (cache = (struct cache *)calloc(1, sizeof *cache)) == NULL)
        return NULL;
    options.object_bytes = sizeof(struct page) + (uint64_t)extra_bytes;
    options.name = "sqlite pages";
    if (uzram_cache_new(&options, &cache->objects) != 0) {
        free(cache);
        return NULL;
    }
    cache->extra_bytes = (size_t)extra_bytes;
    cache->purgeable = purgeable;
    cache->most = 100;
    return (sqlite3_pcache *)cache;
}

static void x_cachesize(sqlite3_pcache *given, int pages)
{
    ((struct cache *)given)->most = (unsigned)pages;
}

static int x_pagecount(sqlite3_pcache *given)
{
    return (int)((struct cache *)given)->count;
}

static sqlite3_pcache_page *x_fetch(sqlite3_pcache *given, unsigned key, int create)
{
    struct cache *cache = (struct cache *)given;
    struct page *page = found(cache, key);
    if (page != NULL) {
        if (page->locked == NULL) {
            if (pin(page) != 0)
                return NULL;
            leave_ages(cache, page);
        }
        return &page->page;
    }
    if (create == 0)
        return NULL;
    if (cache->purgeable && cache->count >= cache->most && cache->oldest != NULL)
        drop(cache, cache->oldest);
    else if (create == 1 && cache->purgeable && cache->count >= cache->most)
        return NULL;
    page = made(cache, key);
    return page == NULL ? NULL : &page->page;
}

static void x_unpin(sqlite3_pcache *given, sqlite3_pcache_page *page_given, int discard)
{
    struct cache *cache = (struct cache *)given;
    struct page *page = (struct page *)page_given;
    if (discard) {
        drop(cache, page);
        return;
    }
    uzram_region_unlock(page->locked);
    page->locked = NULL;
    page->older = cache->youngest;
    page->younger = NULL;
    *(cache->youngest ? &cache->youngest->younger : &cache->oldest) = page;
    cache->youngest = page;
}

static void x_rekey(sqlite3_pcache *given, sqlite3_pcache_page *page_given, unsigned old_key,
                    unsigned key)
{
    struct cache *cache = (struct cache *)given;
    struct page *page = (struct page *)page_given, *there = found(cache, key);
    (void)old_key;
    if (there != NULL)
        drop(cache, there);
    leave_bucket(cache, page);
    add(cache, page, key);
}

static void x_truncate(sqlite3_pcache *given, unsigned first)
{
    struct cache *cache = (struct cache *)given;
    int i;
    for (i = 0; i < BUCKETS; i++) {
        struct page *page = cache->buckets[i], *next;
        for (; page != NULL; page = next) {
            next = page->next;
            if (page->key >= first)
                drop(cache, page);
        }
    }
}

static void x_destroy(sqlite3_pcache *given)
{
    struct cache *cache = (struct cache *)given;
    x_truncate(given, 0);
    if (uzram_cache_destroy(cache->objects) != 0)
        abort();
    free(cache);
}

static void x_shrink(sqlite3_pcache *given)
{
    struct cache *cache = (struct cache *)given;
    while (cache->purgeable && cache->oldest != NULL)
        drop(cache, cache->oldest);
}

int pcache_install(uint64_t pages, uint64_t limit)
{
    static const struct sqlite3_pcache_methods2 methods = {
        1,       NULL,    x_init,  x_shutdown, x_create,  x_cachesize, x_pagecount,
        x_fetch, x_unpin, x_rekey, x_truncate, x_destroy, x_shrink,
    };
    struct uzram_region_options options = UZRAM_INIT(struct uzram_region_options);
    int failed;
    options.bytes = pages * PAGE_BYTES;
    options.limit = limit;
    failed = uzram_region_new(&options, &memory.region);
    if (failed)
        return -failed;
    memory.free_slots = (uint64_t *)malloc(pages * sizeof(uint64_t));
    if (memory.free_slots == NULL)
        return ENOMEM;
    for (memory.free_count = 0; memory.free_count < pages; memory.free_count++)
        memory.free_slots[memory.free_count] = pages - 1 - memory.free_count;
    return sqlite3_config(SQLITE_CONFIG_PCACHE2, &methods) == SQLITE_OK ? 0 : EINVAL;
}

void pcache_stat(struct uzram_region_stat *stat)
{
    stat->size = sizeof *stat;
    if (uzram_region_stat(memory.region, stat) != 0)
        abort();
}

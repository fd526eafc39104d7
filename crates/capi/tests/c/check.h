/* Declarations that the parts of the conformance test share. */
#ifndef CHECK_H
#define CHECK_H

#include "uzram.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Aborts the program unless `is` is true. */
#define CHECK(is)                                                                                \
    do {                                                                                         \
        if (!(is)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s; the last error: %s\n", __FILE__, __LINE__, #is,  \
                    uzram_error_message());                                                      \
            abort();                                                                             \
        }                                                                                        \
    } while (0)

/* Aborts the program unless the call fails with this errno and a message that contains `part`. */
#define FAILS(call, errno_, part)                                                                \
    do {                                                                                         \
        int got_ = (call);                                                                       \
        if (got_ != -(errno_) || strstr(uzram_error_message(), part) == NULL) {                  \
            fprintf(stderr, "%s:%d: %s is %d, not %d; the last error: %s\n", __FILE__, __LINE__, \
                    #call, got_, -(errno_), uzram_error_message());                              \
            abort();                                                                             \
        }                                                                                        \
    } while (0)

enum { THREADS = 4 };

/* Whether tests of child processes and of regions are skipped (for valgrind). */
extern int is_single;

/* Runs `work` on THREADS threads, each with its own element of `things`, of `bytes` bytes. */
void on_threads(void *(*work)(void *), void *things, size_t bytes);

/* Runs `work` in a child process, which must succeed. */
void in_child(void (*work)(void *), void *thing);

/* Fills memory with data that depend on `seed` and compress to about half their size. */
void fill(void *bytes, size_t len, uint64_t seed);

/* Fills memory with incompressible data. */
void fill_noise(void *bytes, size_t len, uint64_t seed);

void test_devices(const char *dir);
void test_jobs(const char *dir);
void test_pools(void);
void test_caches(void);
void test_lru_caches(void);
void test_regions(void);
void test_ends(const char *dir);

#endif

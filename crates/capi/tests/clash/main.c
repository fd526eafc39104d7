/*
 * A program that defines functions of the libraries that libuzram contains. The program is also
 * linked to another library that rustc compiled. libuzram must still call its own functions.
 */
#include "uzram.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether a panic in other.rs, which defines this function, was caught. */
int other_catches(void);

/* Aborts the program if libuzram calls the program's function instead of the library's own. */
#define MINE(name)                                                                   \
    size_t name(void);                                                               \
    size_t name(void)                                                                \
    {                                                                                \
        fprintf(stderr, "libuzram has called the program's own %s\n", #name);        \
        abort();                                                                     \
    }

MINE(ZSTD_trace_compress_begin)
MINE(ZSTD_trace_compress_end)
MINE(ZSTD_trace_decompress_begin)
MINE(ZSTD_trace_decompress_end)
MINE(ZSTD_compress2)
MINE(ZSTD_compressCCtx)
MINE(ZSTD_decompressDCtx)
MINE(ZSTD_createCCtx)
MINE(ZSTD_initStaticCCtx)
MINE(ZSTD_initStaticDCtx)
MINE(ZSTD_CCtx_setParameter)
MINE(LZ4_compress_default)
MINE(LZ4_compress_fast_extState)
MINE(LZ4_decompress_safe)
MINE(LZ4_compress_HC_extStateHC)

static int uses(const char *algorithm)
{
    struct uzram_device_options options = UZRAM_INIT(struct uzram_device_options);
    uzram_device *device = NULL;
    static char written[100000], read[100000];
    size_t i;
    int failed;
    for (i = 0; i < sizeof written; i++)
        written[i] = (char)(i % 100 + i / 1000);
    options.disksize = 1 << 20;
    options.algorithm = algorithm;
    failed = uzram_device_new(&options, &device) != 0 ||
             uzram_device_write(device, 0, written, sizeof written) != 0 ||
             uzram_device_read(device, 0, read, sizeof read) != 0;
    uzram_device_destroy(device);
    return !failed && memcmp(written, read, sizeof read) == 0;
}

int main(void)
{
    if (!uses("zstd") || !uses("lz4") || !uses("lz4hc") || !other_catches()) {
        fprintf(stderr, "not so; the last error: %s\n", uzram_error_message());
        return 1;
    }
    puts("all names are their owners'");
    return 0;
}

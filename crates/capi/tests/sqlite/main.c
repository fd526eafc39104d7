/* A database whose page cache is larger than the memory that the cache can use: main FILE. */
#include "pcache.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 30000, CACHE = 32 << 20, LIMIT = 8 << 20 };

#define CHECK(is)                                                                               \
    do {                                                                                        \
        if (!(is)) {                                                                            \
            fprintf(stderr, "%s:%d: not so: %s; the last errors: %s; %s\n", __FILE__, __LINE__, \
                    #is, uzram_error_message(), db ? sqlite3_errmsg(db) : "");                  \
            abort();                                                                            \
        }                                                                                       \
    } while (0)

static sqlite3 *db;

static void does(const char *sql)
{
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* Returns the number in the result. If the result is a text, returns whether the text is "ok". */
static sqlite3_int64 number(const char *sql)
{
    sqlite3_stmt *statement = NULL;
    sqlite3_int64 result;
    CHECK(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(statement) == SQLITE_ROW);
    if (sqlite3_column_type(statement, 0) == SQLITE_TEXT)
        result = strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    else
        result = sqlite3_column_int64(statement, 0);
    CHECK(sqlite3_finalize(statement) == SQLITE_OK);
    return result;
}

static void insert_rows(void)
{
    sqlite3_stmt *insert = NULL;
    char text[640];
    int i, j;
    does("BEGIN");
    CHECK(sqlite3_prepare_v2(db, "INSERT INTO t VALUES (?, ?, ?)", -1, &insert, NULL) == SQLITE_OK);
    for (i = 0; i < ROWS; i++) {
        for (j = 0; j < 14; j++)
            snprintf(text + 40 * j, 60, "field %04d of row %08d is %015d", j, i, i * j % 99991);
        text[560] = '\0';
        CHECK(sqlite3_bind_int(insert, 1, i) == SQLITE_OK);
        CHECK(sqlite3_bind_int(insert, 2, (int)(i * 7919LL % ROWS)) == SQLITE_OK);
        CHECK(sqlite3_bind_text(insert, 3, text, -1, SQLITE_STATIC) == SQLITE_OK);
        CHECK(sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK);
    }
    CHECK(sqlite3_finalize(insert) == SQLITE_OK);
    does("COMMIT");
}

int main(int argc, char **argv)
{
    const sqlite3_int64 sum = (sqlite3_int64)ROWS * (ROWS - 1) / 2;
    struct uzram_region_stat stat;
    CHECK(argc == 2);
    CHECK(pcache_install(CACHE / 4096 + 1000, LIMIT) == 0);
    CHECK(sqlite3_open(argv[1], &db) == SQLITE_OK);
    does("PRAGMA page_size = 4096; PRAGMA cache_size = -32768; PRAGMA synchronous = OFF");
    does("CREATE TABLE t (id INTEGER PRIMARY KEY, mixed INTEGER, text TEXT)");
    insert_rows();
    does("CREATE INDEX by_mixed ON t (mixed)");
    CHECK(number("SELECT sum(mixed) FROM t") == sum);
    /* Reads in the order of the index, which differs from the order of the table. */
    CHECK(number("SELECT sum(length(text)) FROM t INDEXED BY by_mixed WHERE mixed >= 0") >
          ROWS * 500);
    /* Changed pages stay pinned until they are committed, and can exceed the limit until then. */
    pcache_stat(&stat);
    CHECK(stat.held <= LIMIT && stat.stored + stat.resident > 3 * LIMIT / 2);
    printf("pages of %.1f MiB are cached in %.1f MiB\n",
           (double)(stat.stored + stat.resident) / (1 << 20), (double)stat.held / (1 << 20));
    does("BEGIN; UPDATE t SET text = upper(text), mixed = -mixed WHERE id % 10 = 3; ROLLBACK");
    does("UPDATE t SET text = upper(text) WHERE id % 10 = 7");
    CHECK(number("SELECT count(*) FROM t WHERE text = upper(text)") == ROWS / 10);
    CHECK(number("SELECT sum(mixed) FROM t") == sum);
    does("DELETE FROM t WHERE id % 2 = 1; VACUUM");
    CHECK(number("SELECT count(*) FROM t") == ROWS / 2);
    CHECK(number("PRAGMA integrity_check") == 1);
    pcache_stat(&stat);
    CHECK(stat.held <= LIMIT && stat.evicted > 1000 && stat.filled > 1000);
    CHECK(sqlite3_close(db) == SQLITE_OK);
    db = NULL;
    CHECK(sqlite3_shutdown() == SQLITE_OK);
    return 0;
}

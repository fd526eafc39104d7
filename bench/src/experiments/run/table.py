"""Fills a table of SQLite with the lines of a file, and reads random lines. SQLite's cache holds the whole
table. A seed determines the lines that are read. Prints a checksum."""

import random
import sqlite3
import sys
import zlib


def rows(path):
    with open(path, encoding="latin-1") as file:
        for line in file:
            name, number, text = line.split(":", 2)
            yield name, int(number), text, zlib.crc32(line.encode())


path, cache, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
table = sqlite3.connect("table.db")
for setting in [f"cache_size=-{cache >> 10}", "journal_mode=off", "synchronous=off", "locking_mode=exclusive"]:
    table.execute(f"pragma {setting}")
table.execute("create table lines (id integer primary key, name text, number int, text text, sum int)")
table.executemany("insert into lines (name, number, text, sum) values (?, ?, ?, ?)", rows(path))
table.execute("create index by_sum on lines (sum)")
count = table.execute("select count(*) from lines").fetchone()[0]
chance, checksum = random.Random(seed), 0
for nth in range(count // 4):
    # Most reads use a tenth of the lines.
    wanted = 1 + chance.randrange(count if nth % 8 == 0 else count // 10)
    text, of_it = table.execute("select text, sum from lines where id = ?", (wanted,)).fetchone()
    same = table.execute("select count(*) from lines where sum = ?", (of_it,)).fetchone()[0]
    checksum = zlib.crc32(text.encode("latin-1"), checksum ^ same)
    if nth % 16 == 0:
        table.execute("update lines set number = number + 1 where id = ?", (wanted,))
sums = table.execute("select name, sum(number), max(length(text)) from lines group by name order by name")
for row in sums:
    checksum = zlib.crc32(repr(row).encode(), checksum)
table.close()
print(f"{count} lines, {checksum:08x}")

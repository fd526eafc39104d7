"""Starts a Redis server, stores the lines of a file, and reads random lines. A seed determines the lines
that are read. Prints a checksum."""

import errno
import random
import socket
import subprocess
import sys
import time
import zlib

BATCH = 200


def connected(server):
    """Waits until the server listens. Returns a connection."""
    while server.poll() is None:
        try:
            link = socket.socket(socket.AF_UNIX)
            link.connect("redis.sock")
            return link
        except OSError:
            time.sleep(0.01)
    sys.exit("the server has ended")


def request(*parts):
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def send(link, data):
    """Sends all of `data`. In a full cgroup, the system sometimes has no memory for a part of the data."""
    data = memoryview(data)
    while data:
        try:
            data = data[link.send(data):]
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            time.sleep(0.001)


def answers(link, requests):
    """Sends all requests together, and yields the answer to each request."""
    send(link, b"".join(requests))
    with link.makefile("rb") as stream:
        for _ in requests:
            head = stream.readline()
            if head.startswith(b"$") and head != b"$-1\r\n":
                yield stream.read(int(head[1:]) + 2)
            else:
                yield head


def main():
    program, path, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    settings = ["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([program, *settings], stdout=subprocess.DEVNULL)
    link, chance, checksum, batch, count = connected(server), random.Random(seed), 0, [], 0
    with open(path, "rb") as file:
        for line in file:
            batch.append(request("set", f"line:{count}", line))
            batch.append(request("rpush", f"list:{zlib.crc32(line) % 50000}", count))
            count += 1
            if len(batch) >= BATCH:
                assert not any(answer.startswith(b"-") for answer in answers(link, batch))
                batch = []
    for _ in range(count // 2 // BATCH):
        # Most reads use a tenth of the lines.
        wanted = [chance.randrange(count if nth % 8 == 0 else count // 10) for nth in range(BATCH)]
        for answer in answers(link, [request("get", f"line:{number}") for number in wanted]):
            checksum = zlib.crc32(answer, checksum)
    print(f"{count} lines, {checksum:08x}")
    link.sendall(request("shutdown", "nosave"))
    server.wait()


main()

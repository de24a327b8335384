"""Drives the Lock of redis-py over stdin and stdout, as ../README.md says.

One task uses the blocking client, which is the faster one by itself; several tasks use the asyncio client.
"""

import asyncio
import sys
from array import array
from platform import python_version
from time import monotonic_ns, sleep

import hiredis
import redis
import redis.asyncio

LEASE_S = 30
CONNECTIONS = 64
SETTINGS = (
    "with hiredis; one task: the blocking client; several: the asyncio client with a blocking pool of "
    f"{CONNECTIONS} connections; default sleep of 0.1 s between tries; timeout {LEASE_S} s"
)


def words_of_lines():
    for line in sys.stdin:
        yield line.split()


def say(line):
    print(line, flush=True)


def alone(client, key, length, hold):
    stamps, failures = array("Q"), 0
    end = monotonic_ns() + length
    while (asked := monotonic_ns()) < end:
        lock = client.lock(key, timeout=LEASE_S)
        lock.acquire()
        held = monotonic_ns()
        if hold:
            sleep(hold)
        releasing = monotonic_ns()
        try:
            lock.release()
        except redis.exceptions.LockError:
            failures += 1
        stamps.extend((asked, held, releasing, monotonic_ns()))
    return stamps, failures


async def one_of_many(client, key, end, hold):
    stamps, failures = array("Q"), 0
    while (asked := monotonic_ns()) < end:
        lock = client.lock(key, timeout=LEASE_S)
        await lock.acquire()
        held = monotonic_ns()
        if hold:
            await asyncio.sleep(hold)
        releasing = monotonic_ns()
        try:
            await lock.release()
        except redis.exceptions.LockError:
            failures += 1
        stamps.extend((asked, held, releasing, monotonic_ns()))
    return stamps, failures


async def many(client, keys, length, hold):
    end = monotonic_ns() + length
    return await asyncio.gather(*(one_of_many(client, key, end, hold) for key in keys))


def write(path, tasks):
    with open(path, "wb") as file:
        for stamps, failures in tasks:
            array("Q", (len(stamps) // 4, failures)).tofile(file)
            stamps.tofile(file)


def main():
    url = f"redis://{sys.argv[1]}"
    blocking = redis.Redis.from_url(url)
    blocking.ping()
    pool = redis.asyncio.BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=None)
    concurrent = redis.asyncio.Redis(connection_pool=pool)
    loop = asyncio.new_event_loop()
    say(f"peer\t{redis.__version__}, hiredis {hiredis.__version__}, Python {python_version()}\t{SETTINGS}")
    lines = words_of_lines()
    for _, row, tasks, millis, hold, key, path in lines:
        if row == "fair":
            say("no")
            continue
        count, length, hold = int(tasks), int(millis) * 1_000_000, int(hold) / 1000
        keys = [f"{key}:{task}" if row == "own" else key for task in range(count)]
        say("ready")
        next(lines)
        if count == 1:
            write(path, [alone(blocking, keys[0], length, hold)])
        else:
            write(path, loop.run_until_complete(many(concurrent, keys, length, hold)))
        say("done")


main()

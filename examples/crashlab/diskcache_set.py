"""diskcache: a value whose set has returned is there; large values are files of their own beside the database.

    twinfs crashlab --check 'python3 diskcache_set.py check' -- python3 diskcache_set.py run
"""

import os
import sys

from diskcache import Cache

VALUE = b"v" * 50_000


def run():
    # Durable rows, as whoever relies on them asks for.
    with Cache("cache", sqlite_synchronous=2) as cache:
        for n in range(3):
            cache[n] = VALUE
            with open(os.environ["CRASHLAB_ACK"], "a") as acks:
                acks.write(f"{n}\n")


def check():
    with open(os.environ["CRASHLAB_ACKED"]) as acked:
        promised = [int(line) for line in acked]
    if not promised:
        return
    with Cache("cache") as cache:
        for n in promised:
            if cache.get(n) != VALUE:
                sys.exit(f"value {n} is gone or not what it was")


run() if sys.argv[1] == "run" else check()

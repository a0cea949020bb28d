"""LMDB with its defaults: a key whose transaction was committed is there.

    twinfs crashlab --setup 'python3 lmdb_commit.py setup' --check 'python3 lmdb_commit.py check' -- \
        python3 lmdb_commit.py run
"""

import os
import sys

import lmdb

SIZE = 1 << 20


def run():
    env = lmdb.open("env", map_size=SIZE)
    for n in range(5):
        with env.begin(write=True) as transaction:
            transaction.put(b"key%d" % n, b"v" * 1000)
        with open(os.environ["CRASHLAB_ACK"], "a") as acks:
            acks.write(f"key{n}\n")
    env.close()


def check():
    with open(os.environ["CRASHLAB_ACKED"]) as acked:
        promised = [line.strip().encode() for line in acked]
    with lmdb.open("env", map_size=SIZE).begin() as transaction:
        for key in promised:
            if transaction.get(key) != b"v" * 1000:
                sys.exit(f"{key} is gone")


if sys.argv[1] == "setup":
    lmdb.open("env", map_size=SIZE).close()
else:
    run() if sys.argv[1] == "run" else check()

"""plyvel (LevelDB): a key that was written with sync=True is there, and the database opens.

    twinfs crashlab --check 'python3 plyvel_put.py check' -- python3 plyvel_put.py run
"""

import os
import sys

import plyvel


def run():
    db = plyvel.DB("db", create_if_missing=True)
    for n in range(4):
        db.put(b"key%d" % n, b"v" * 200, sync=True)
        with open(os.environ["CRASHLAB_ACK"], "a") as acks:
            acks.write(f"key{n}\n")
    db.close()
    # It is opened again: a new log, a new manifest.
    db = plyvel.DB("db")
    db.put(b"key4", b"v" * 200, sync=True)
    with open(os.environ["CRASHLAB_ACK"], "a") as acks:
        acks.write("key4\n")


def check():
    with open(os.environ["CRASHLAB_ACKED"]) as acked:
        promised = [line.strip().encode() for line in acked]
    # Where nothing was promised it must still open.
    db = plyvel.DB("db", create_if_missing=not promised)
    for key in promised:
        if db.get(key) != b"v" * 200:
            sys.exit(f"{key} is gone")


run() if sys.argv[1] == "run" else check()

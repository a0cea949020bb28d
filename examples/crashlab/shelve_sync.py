"""shelve over dbm.dumb, which is what shelve.open takes where Python has no other: what sync() has returned for is there.

    twinfs crashlab --check 'python3 shelve_sync.py check' -- python3 shelve_sync.py run
"""

import dbm.dumb
import os
import shelve
import sys


def run():
    with shelve.Shelf(dbm.dumb.open("shelf", "c")) as shelf:
        for n in range(4):
            shelf[f"key{n}"] = "x" * 500
            shelf.sync()
            with open(os.environ["CRASHLAB_ACK"], "a") as acks:
                acks.write(f"key{n}\n")


def check():
    with open(os.environ["CRASHLAB_ACKED"]) as acked:
        promised = [line.strip() for line in acked]
    if not promised:
        return
    with shelve.Shelf(dbm.dumb.open("shelf", "r")) as shelf:
        for key in promised:
            assert shelf[key] == "x" * 500, key


run() if sys.argv[1] == "run" else check()

"""TinyDB: a document whose insert has returned is there.

    twinfs crashlab --check 'python3 tinydb_insert.py check' -- python3 tinydb_insert.py run
"""

import os
import sys

from tinydb import TinyDB


def run():
    db = TinyDB("db.json")
    for n in range(4):
        db.insert({"n": n, "text": "x" * 300})
        with open(os.environ["CRASHLAB_ACK"], "a") as acks:
            acks.write(f"{n}\n")


def check():
    with open(os.environ["CRASHLAB_ACKED"]) as acked:
        promised = {int(line) for line in acked}
    if not promised and not os.path.exists("db.json"):
        return
    there = {document["n"] for document in TinyDB("db.json").all()}
    if promised - there:
        sys.exit(f"documents {sorted(promised - there)} are gone")


run() if sys.argv[1] == "run" else check()

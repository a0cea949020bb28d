"""SQLite in a journal mode: every row whose transaction was committed is there, and the file is sound.

    twinfs crashlab --check 'python3 sqlite.py check' -- python3 sqlite.py run [delete|truncate|persist|wal] [SYNCHRONOUS [ROWS]]

In the mode `delete` a transaction is committed when its journal is unlinked, and with synchronous=full, the default,
SQLite does not sync the directory then: the last transaction can be rolled back. synchronous=extra is for that.

(with the full path of this file: the working directory is the volume).
"""

import os
import sqlite3
import sys


def acknowledge(label):
    with open(os.environ["CRASHLAB_ACK"], "a") as acks:
        acks.write(f"{label}\n")


def run(mode="delete", synchronous="full", rows=6):
    db = sqlite3.connect("rows.db", isolation_level=None)
    db.execute(f"pragma journal_mode={mode}").fetchall()
    db.execute(f"pragma synchronous={synchronous}")
    db.execute("create table rows(n integer primary key, text text)")
    for n in range(int(rows)):
        db.execute("begin immediate")
        db.execute("insert into rows values(?, ?)", (n, "x" * 3000))
        db.execute("commit")
        acknowledge(n)


def check():
    with open(os.environ["CRASHLAB_ACKED"]) as acked:
        promised = {int(line) for line in acked}
    if not os.path.exists("rows.db") and not promised:
        return
    db = sqlite3.connect("rows.db")
    sound = db.execute("pragma integrity_check").fetchone()[0]
    if sound != "ok":
        sys.exit(f"integrity: {sound}")
    try:
        there = {n for n, in db.execute("select n from rows where length(text) = 3000")}
    except sqlite3.OperationalError as error:
        if promised:
            sys.exit(f"{error}, although rows were committed")
        return
    if promised - there:
        sys.exit(f"rows {sorted(promised - there)} are gone")


if sys.argv[1] == "run":
    run(*sys.argv[2:])
else:
    check()

"""pyturso: a row whose transaction was committed is there.

    twinfs crashlab --check 'python3 pyturso_commit.py check' -- python3 pyturso_commit.py run
"""

import os
import sys

import turso


def run():
    db = turso.connect("rows.db")
    cursor = db.cursor()
    cursor.execute("create table rows(n integer primary key, text text)")
    db.commit()
    for n in range(4):
        cursor.execute("insert into rows values(?, ?)", (n, "x" * 500))
        db.commit()
        with open(os.environ["CRASHLAB_ACK"], "a") as acks:
            acks.write(f"{n}\n")
    db.close()


def check():
    with open(os.environ["CRASHLAB_ACKED"]) as acked:
        promised = {int(line) for line in acked}
    if not promised:
        return
    cursor = turso.connect("rows.db").cursor()
    cursor.execute("select n from rows")
    there = {row[0] for row in cursor.fetchall()}
    if promised - there:
        sys.exit(f"rows {sorted(promised - there)} are gone")


run() if sys.argv[1] == "run" else check()

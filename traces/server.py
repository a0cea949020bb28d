#!/usr/bin/env python3
"""The workload of `server.tw`: a small server, in a directory of a mount.

Usage: server.py DIRECTORY TREE

Four clients work at once, each in a directory of its own: a mail spool, an SQLite database, the disk image of a
virtual machine, and a tree of sources (a copy of TREE) that is searched, edited and kept in git. Afterwards the
volume is nearly full. Between two rounds the kernel's caches are dropped (this needs root), so that
the second round begins with reads from the disk.
"""
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from multiprocessing import Process

ROUNDS = 3
MIB = 1 << 20
IMAGE = 96 * MIB
ROWS = 24_000


def durable(path, data):
    """Writes a file of a mail spool: under another name first, and with an fsync."""
    with open(path + ".tmp", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".tmp", path)


def mail(top, turn):
    """Delivers 400 messages, reads a third of those that are there, and removes a quarter."""
    rng = random.Random(100 + turn)
    for n in range(400):
        box = f"{top}/mail/{rng.randrange(20)}"
        os.makedirs(box, exist_ok=True)
        durable(f"{box}/{turn}-{n}", rng.randbytes(int(rng.lognormvariate(9, 1)) + 200))
    for box in sorted(os.listdir(f"{top}/mail")):
        for name in sorted(os.listdir(f"{top}/mail/{box}")):
            path, choice = f"{top}/mail/{box}/{name}", rng.random()
            if choice < 0.33:
                with open(path, "rb") as file:
                    file.read()
            elif choice > 0.75:
                os.remove(path)


def database(top, turn):
    """Makes a table in the first round; then 300 transactions, of three changed rows each."""
    rng = random.Random(200 + turn)
    base = sqlite3.connect(f"{top}/base.db", isolation_level=None)
    base.execute("pragma cache_size = -1024")
    if turn == 0:
        base.execute("create table t (k integer primary key, v blob)")
        base.execute("begin")
        base.executemany("insert into t values (?, ?)", ((k, rng.randbytes(1800)) for k in range(ROWS)))
        base.execute("commit")
    for _ in range(300):
        base.execute("begin")
        for _ in range(3):
            k = rng.randrange(ROWS)
            base.execute("select v from t where k = ?", (k,)).fetchone()
            base.execute("update t set v = ? where k = ?", (rng.randbytes(1800), k))
        base.execute("commit")
    base.close()


def machine(top, turn):
    """Overwrites 4 KiB blocks of a disk image, half of them in its hottest tenth, and reads others."""
    rng = random.Random(300 + turn)
    image = os.open(f"{top}/machine.img", os.O_RDWR | os.O_CREAT)
    if turn == 0:
        for at in range(0, IMAGE, MIB):
            os.pwrite(image, rng.randbytes(MIB), at)
        os.fsync(image)
    blocks = IMAGE // 4096
    for n in range(3000):
        block = rng.randrange(blocks // 10 if rng.random() < 0.5 else blocks)
        if rng.random() < 0.25:
            os.pread(image, 4096, block * 4096)
        else:
            os.pwrite(image, rng.randbytes(4096), block * 4096)
        if n % 50 == 49:
            os.fsync(image)
    os.close(image)


def sources(top, tree, turn):
    """Copies a tree and commits it to git in the first round; then searches it, edits and commits."""
    rng = random.Random(400 + turn)
    work = f"{top}/tree"

    def git(*words):
        who = ["-c", "user.name=twin", "-c", "user.email=twin@localhost", "-c", "core.fsync=all"]
        subprocess.run(["git", "-C", work, *who, "-c", "gc.auto=0", *words], check=True, stdout=subprocess.DEVNULL)

    if turn == 0:
        shutil.copytree(tree, work)
        git("init", "--quiet")
        git("add", "--all")
        git("commit", "--quiet", "--message", "first")
    subprocess.run(["grep", "-rq", "no such words", work], check=False)
    files = subprocess.run(["git", "-C", work, "ls-files"], check=True, capture_output=True, text=True)
    for n in range(8):
        for name in rng.sample(files.stdout.split(), 4):
            with open(f"{work}/{name}", "ab") as file:
                file.write(b"// edited\n")
        git("commit", "--quiet", "--all", "--message", f"edit {turn}.{n}")


def main():
    top, tree = sys.argv[1:3]
    os.makedirs(f"{top}/mail")
    for turn in range(ROUNDS):
        jobs = [(mail, top, turn), (database, top, turn), (machine, top, turn), (sources, top, tree, turn)]
        clients = [Process(target=job, args=args) for job, *args in jobs]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
            if client.exitcode != 0:
                sys.exit("a client failed")
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
            drop.write("3")


if __name__ == "__main__":
    main()

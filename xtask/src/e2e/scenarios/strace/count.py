"""Sums what a text of strace says of regular files: an arithmetic of its own, beside the reader of twinfs.

count.py TEXT DIRECTORY EXISTING: the working directory at the start, and a file with the names that existed
before below it, one a line. Prints bytes read and written, files and directories made and removed, symbolic links
made, and syncs, in this order. It follows descriptors from call to call; where the text has paths (-y), it takes those.
"""
import collections, os, re, sys

text, start, existing = sys.argv[1:4]
exists = set(open(existing, errors="surrogateescape").read().split("\n"))
tables, cwds, begun = {}, {}, {}
count = collections.Counter()
NO = ("/proc", "/sys", "/dev", "/memfd:")


def unescape(s):
    out, i = bytearray(), 0
    for m in re.finditer(r'\\(x[0-9a-f]{2}|[0-7]{1,3}|.)|([^\\]+)', s):
        esc, plain = m.groups()
        if plain is not None:
            out += plain.encode()
        elif esc[0] == "x":
            out.append(int(esc[1:], 16))
        elif esc[0] in "01234567":
            out.append(int(esc, 8))
        else:
            out += {"n": b"\n", "t": b"\t", "r": b"\r"}.get(esc, esc.encode())
    return out.decode(errors="surrogateescape")


def is_file(path):
    return path is not None and path.startswith("/") and not path.startswith(NO)


def fd_of(arg):
    """The number and the path of a descriptor in the text."""
    m = re.match(r'(-?\d+|AT_FDCWD)(?: /\*.*?\*/)?(?:<((?:[^<>\\]|\\.)*)(<[^>]*>)?>(\(deleted\))?)?', arg)
    if not m:
        return None, None
    path = m.group(2)
    if path is not None:
        path = unescape(path)
        if m.group(3) or not path.startswith("/"):
            path = "!" + path
    return m.group(1), path


def split(args):
    """Arguments at commas outside of strings, brackets and paths."""
    out, depth, i, last, quoted = [], 0, 0, 0, False
    while i < len(args):
        c = args[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c in "{[(<" and not (c == "<" and args[i + 1:i + 2] == "<"):
            depth += 1
        elif c in "}])>" and not (c == ">" and args[i - 1] in "-="):
            depth -= 1
        elif c == "," and depth == 0:
            out.append(args[last:i].strip())
            last = i + 1
        i += 1
    return out + [args[last:].strip()]


def table(pid):
    return tables.setdefault(pid, {})


def path_at(pid, dirfd, arg):
    m = re.match(r'"((?:[^"\\]|\\.)*)"$', arg)
    if not m:
        return None
    path = unescape(m.group(1))
    if path.startswith("/"):
        return os.path.normpath(path)
    base = cwds.get(pid, start)
    if dirfd is not None:
        fd, known = fd_of(dirfd)
        if known:
            base = known
        elif fd not in ("AT_FDCWD", "-100"):
            base = table(pid).get(fd, ("!", False))[0]
    return os.path.normpath(os.path.join(base, path))


def file_of(pid, arg):
    fd, path = fd_of(arg)
    if path is None:
        path = table(pid).get(fd, (None, False))[0]
    return path if is_file(path) else None


def make(path, what):
    if path not in exists:
        count[what] += 1
        exists.add(path)


def opened(pid, dirfd, arg, flags, result):
    fd, told = fd_of(result)
    if not fd or fd.startswith("-"):
        return
    path = told or path_at(pid, dirfd, arg) or "!"
    given = path_at(pid, dirfd, arg)
    table(pid)[fd] = (path, "O_CLOEXEC" in flags)
    if "O_TMPFILE" in flags:
        count["made"] += 1
        count["removed"] += 1
        unnamed.add((pid, fd))
    elif "O_CREAT" in flags and is_file(path):
        if not (given and given in exists):
            make(path, "made")
    elif is_file(path):
        exists.add(path)


unnamed = set()


def call(pid, name, args, result):
    ok = not result.startswith(("-1", "?"))
    n = int(m.group(0)) if (m := re.match(r"\d+", result)) else 0
    if name in ("fork", "vfork", "clone", "clone3") and ok:
        return  # done ahead
    if not ok:
        return
    if name in ("open", "creat"):
        opened(pid, None, args[0], args[1] if name == "open" else "O_CREAT|O_TRUNC", result)
    elif name in ("openat", "openat2"):
        opened(pid, args[0], args[1], args[2], result)
    elif name == "close":
        table(pid).pop(fd_of(args[0])[0], None)
    elif name in ("dup", "dup2", "dup3") or name == "fcntl" and "F_DUPFD" in args[1]:
        fd, path = fd_of(args[0])
        known = path or table(pid).get(fd, (None, False))[0]
        keep = "CLOEXEC" in " ".join(args[1:])
        if fd_of(result)[0] != fd:
            table(pid)[fd_of(result)[0]] = (known, keep)
    elif name == "fcntl" and "F_SETFD" in args[1]:
        fd = fd_of(args[0])[0]
        if fd in table(pid):
            table(pid)[fd] = (table(pid)[fd][0], "FD_CLOEXEC" in args[2])
    elif name == "ioctl" and "FIOCLEX" in args[1]:
        fd = fd_of(args[0])[0]
        if fd in table(pid):
            table(pid)[fd] = (table(pid)[fd][0], True)
    elif name in ("pipe", "pipe2", "socketpair"):
        for fd in re.findall(r"(?:\[|, )(\d+)", " ".join(args))[:2]:
            table(pid)[fd] = ("!", "CLOEXEC" in args[-1])
    elif name in ("socket", "accept", "accept4", "eventfd2", "epoll_create1", "memfd_create"):
        table(pid)[fd_of(result)[0]] = ("!", False)
    elif name == "execve":
        tables[pid] = {fd: of for fd, of in table(pid).items() if not of[1]}
    elif name == "chdir":
        cwds[pid] = path_at(pid, None, args[0])
    elif name == "fchdir":
        cwds[pid] = file_of(pid, args[0]) or start
    elif name in ("read", "readv", "pread64", "preadv", "preadv2") and file_of(pid, args[0]):
        count["read"] += n
    elif name in ("write", "writev", "pwrite64", "pwritev", "pwritev2") and file_of(pid, args[0]):
        count["written"] += n
    elif name == "sendfile":
        count["read"] += n if file_of(pid, args[1]) else 0
        count["written"] += n if file_of(pid, args[0]) else 0
    elif name in ("copy_file_range", "splice"):
        count["read"] += n if file_of(pid, args[0]) else 0
        count["written"] += n if file_of(pid, args[2]) else 0
    elif name in ("fsync", "fdatasync") and file_of(pid, args[0]):
        count["syncs"] += 1
    elif name in ("sync", "syncfs"):
        count["syncs"] += 1
    elif name in ("mkdir", "mkdirat"):
        at = name == "mkdirat"
        make(path_at(pid, args[0] if at else None, args[at]), "made")
    elif name in ("symlink", "symlinkat"):
        at = name == "symlinkat"
        exists.add(path_at(pid, args[1] if at else None, args[1 + at]))
        count["symlinks"] += 1
    elif name in ("link", "linkat"):
        at = name == "linkat"
        exists.add(path_at(pid, args[2] if at else None, args[3] if at else args[1]))
        if at and "/proc/self/fd/" in args[1]:
            count["removed"] -= 1
    elif name in ("unlink", "unlinkat", "rmdir"):
        at = name == "unlinkat"
        exists.discard(path_at(pid, args[0] if at else None, args[at]))
        count["removed"] += 1
    elif name in ("rename", "renameat", "renameat2"):
        at = name != "rename"
        old = path_at(pid, args[0] if at else None, args[at])
        new = path_at(pid, args[2] if at else None, args[3] if at else args[1])
        for path in [p for p in exists if p == old or p.startswith(old + "/")]:
            exists.discard(path)
            exists.add(new + path[len(old):])
        exists.add(new)


LINE = re.compile(
    r"^(?:\[pid +(\d+)\] |(\d+) +(?=\D|\d+[.:]))?"
    r" *(?:(?:\d+:)*\d+(?:\.\d+)? +)?(?:\(\+ +[\d.]+\) )?(?:\[[ \da-f?]+\] )*(.*)$")


def lines(first):
    """The calls, in order. A line without a number is of the process `first`."""
    cut = ""
    for line in open(text, errors="surrogateescape"):
        line, cut = cut + line, ""
        # A note of strace may stand behind the beginning of a call.
        if line.find("strace: Process ") > 0 and line.endswith("attached\n"):
            cut = line[:line.index("strace: ")]
            continue
        if line.startswith("% time"):
            return
        m = LINE.match(line.rstrip("\n"))
        rest = m.group(3)
        pid = m.group(1) or m.group(2) or first
        if rest.endswith("<unfinished ...>"):
            begun[pid] = rest[:-len("<unfinished ...>")].rstrip()
            yield pid, "unfinished", [], begun[pid]
            continue
        r = re.match(r"<\.\.\. (\w+) resumed>(.*)", rest)
        if r:
            if pid not in begun:
                continue
            rest = begun.pop(pid) + r.group(2)
        c = re.match(r"(\w+)\((.*)\) += (.*?)(?: <[\d.]+>)?$", rest)
        if c:
            yield pid, c.group(1), split(c.group(2)), c.group(3)


# Without -o the first process has a number only beside others: it is the one that none of them made. Others may come or
# go within one of its calls, which then begins with a number and ends without, or the other way round.
numbers = [m.group(1) for m in map(re.compile(r"^\[pid +(\d+)\]").match, open(text, errors="surrogateescape")) if m]
births = {}
for pid, name, args, result in list(lines("0")):
    if name in ("fork", "vfork", "clone", "clone3") and re.match(r"\d+", result):
        births[re.match(r"\d+", result).group(0)] = (pid, "CLONE_FILES" in " ".join(args))
begun.clear()
first = next((pid for pid in numbers if pid not in births), "0")
for pid, name, args, result in lines(first):
    # A child begins with what its parent has when it is first seen, or when it is made.
    child = re.match(r"\d+", result).group(0) if name in ("fork", "vfork", "clone", "clone3") and re.match(r"\d+", result) else pid
    if child not in tables and child in births:
        parent, is_shared = births[child]
        parent = first if parent == "0" else parent
        tables[child] = table(parent) if is_shared else dict(table(parent))
        cwds[child] = cwds.get(parent, start)
    if name != "unfinished":
        call(pid, name, args, result)
print(*(count[k] for k in ("read", "written", "made", "removed", "symlinks", "syncs")))

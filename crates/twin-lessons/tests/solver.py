"""Solves the exercises from what their texts say, independently of the code that made them.

Reads one JSON object a line, {"id": ..., "given": ...}, and writes the answers, one object a line.
"""

import json
import math
import sys


def toy(requests, choose, seek=40, skew=0):
    """The toy disk, in integers: the time is the angle, counted in units from the start of sector 0."""
    time, track, head, waiting = 195, 0, 0, list(requests)
    parts = []
    while waiting:
        def cost(block):
            moved = abs(block // 12 - track) * seek
            angle = (block % 12 + (block // 12) * skew) % 12 * 30
            return moved, (angle - time - moved) % 360
        block = choose(waiting, head, cost)
        moved, turned = cost(block)
        time, track, head = time + moved + turned + 30, block // 12, block + 1
        waiting.remove(block)
        parts.append((moved, turned, 30))
    return time - 195, parts


FIFO = lambda waiting, head, cost: waiting[0]
SSTF = lambda waiting, head, cost: min(waiting, key=lambda block: abs(block - head))
SATF = lambda waiting, head, cost: min(waiting, key=lambda block: sum(cost(block)))


def e37_1(g):
    return {"fifo": toy(g["requests"], FIFO)[0], "sstf": toy(g["requests"], SSTF)[0], "satf": toy(g["requests"], SATF)[0]}


def e37_2(g):
    return dict(zip(("seek", "rotation", "transfer"), toy([g["block"]], FIFO)[1][0]))


def e37_3(g):
    head, places = g["head"], sorted(g["places"])
    up, down = [p for p in places if p >= head], [p for p in places if p < head]
    nearest, at, left = [], head, list(places)
    while left:
        at = min(left, key=lambda p: abs(p - at))
        left.remove(at)
        nearest.append(at)
    look = up + down[::-1]
    tracks = sum(abs(a - b) for a, b in zip([head] + look, look))
    return {"sstf": nearest, "look": look, "clook": up + down, "tracks": tracks}


def e37_4(g):
    blocks = range(g["first"], g["last"] + 1)
    times = [toy(blocks, FIFO, g["seek"], skew)[0] for skew in range(12)]
    return {"without": times[0], "skew": times.index(min(times)), "with": min(times)}


def e39_1(g):
    names, links, root, inodes = {}, {}, 2, 1
    for line in g["lines"]:
        word, *rest = line.split()
        if word == "touch":
            inodes += 1
            names[rest[0]] = inodes
            links[inodes] = 1
        elif word == "ln":
            names[rest[1]] = names[rest[0]]
            links[names[rest[0]]] += 1
        elif word == "rm":
            links[names.pop(rest[0])] -= 1
        else:
            root += 1
    alive = sum(1 for count in links.values() if count) + 1 + root - 2
    return {"file": links[names[g["asked"]]], "root": root, "inodes": alive}


def e39_2(g):
    (owner, group), (user, its) = g["owner"], g["process"]
    shift = 6 if user == owner else 3 if its == group else 0
    bits = g["mode"] >> shift
    return {name: "yes" if bits & bit else "no" for name, bit in (("read", 4), ("write", 2), ("execute", 1))}


def e39_3(g):
    blocks = set()
    for at, length in g["pieces"]:
        blocks |= set(range(at // g["block"], (at + length - 1) // g["block"] + 1))
    return {"size": max(at + length for at, length in g["pieces"]), "blocks": len(blocks)}


def e40_1(g):
    old = {one["inode"]: one for one in g["before"]["inodes"]}
    new = {one["inode"]: one for one in g["after"]["inodes"]}
    names = [{(one["directory"], one["name"]): one["inode"] for one in g[side]["names"]} for side in ("before", "after")]
    made = set(new) - set(old)
    if made:
        return {"what": "mkdir" if new[made.pop()]["kind"] == "directory" else "touch"}
    if len(names[1]) < len(names[0]):
        return {"what": "rm"}
    if len(names[1]) > len(names[0]):
        return {"what": "ln"}
    return {"what": "mv" if names[0] != names[1] else "append"}


def e40_2(g):
    byte = g["table"] * g["block"] + g["inode"] * g["inode_size"]
    return {"block": byte // g["block"], "byte": byte, "sector": byte // 512}


def numbers(failing):
    return " ".join(map(str, failing)) or "none"


def e40_3(g):
    failing = []
    for number, line in enumerate(g["lines"], 1):
        words = line.split()
        blocks = int(words[-1][:-1]) // 4 if words[-1].endswith("K") else 0
        need = {"mkdir": 1, "append": blocks, "write": blocks - (1 if words[1] == "small" else 0)}.get(words[0], 0)
        if need > g["free"]:
            failing.append(number)
    return {"failing": numbers(failing)}


def e40_4(g):
    free, failing = g["free"], []
    for number, line in enumerate(g["lines"], 1):
        word = line.split()[0]
        if word in ("touch", "mkdir", "write"):
            if free:
                free -= 1
            else:
                failing.append(number)
        elif word == "rm":
            free += 1
    return {"failing": numbers(failing)}


def e41_1(g):
    group, index = divmod(g["inode"], g["per_group"])
    byte = g["first"] + group * g["group_bytes"] + g["table"] + index * g["inode_size"]
    return {"group": group, "index": index, "byte": byte}


def e41_2(g):
    whole = math.ceil(g["bytes"] / g["fragment"])
    blocks, fragments = divmod(whole, g["block"] // g["fragment"])
    return {"blocks": blocks, "fragments": fragments, "wasted": whole * g["fragment"] - g["bytes"]}


def e41_3(g):
    number, per = g["offset"] // g["block"], g["block"] // g["pointer"]
    if number < g["direct"]:
        kind, reads, index = "direct", 1, number
    elif number < g["direct"] + per:
        kind, reads, index = "single indirect", 2, number - g["direct"]
    else:
        kind, reads, index = "double indirect", 3, (number - g["direct"] - per) % per
    return {"number": number, "kind": kind, "reads": reads, "index": index}


def e41_4(g):
    share = g["percent"] / (100 - g["percent"])
    transfer = g["positioning_ms"] * share
    return {"kb": round(transfer * g["rate_mb_s"]), "ms": round(transfer)}


def e42_1(g):
    inode, bitmap, data = g["inode"], g["bitmap"], g["data"]
    if inode and bitmap:
        left = "all is there" if data else "the file is longer and has garbage in it"
    elif inode:
        left = "a file has a block that is marked free"
    elif bitmap:
        left = "a block is marked used that no file has"
    else:
        left = "as if nothing had happened"
    return {"left": left, "noticed": "yes" if inode != bitmap else "no"}


def e42_2(g):
    used = {block for _, at, count in g["files"] for block in range(at, at + count)}
    wrong = used.symmetric_difference(g["set"]).pop()
    return {"block": wrong, "how": "marked free, but a file has it" if wrong in used else "marked used, but no file has it"}


def e42_3(g):
    now, durable = set(), set()
    for line in g["lines"]:
        word, *name = line.split()
        if word == "touch":
            now.add(name[0])
        elif word == "rm":
            now.discard(name[0])
        else:
            durable = set(now)
    return {"left": " ".join(sorted(durable)) or "none"}


def e42_4(g):
    meta, data = g["meta"], g["data"]
    return {"journal": (1 + meta + data + 1) + meta + data, "ordered": data + (1 + meta + 1) + meta,
            "none": meta + data, "before": data + 1 + meta}


def e43_1(g):
    size, segments = g["size"], g["segments"]
    score = lambda at: (1 - segments[at][0] / size) * segments[at][1] / (1 + segments[at][0] / size)
    greedy = min(range(len(segments)), key=lambda at: segments[at][0])
    return {"greedy": greedy, "cost_benefit": max(range(len(segments)), key=score), "gain": size - segments[greedy][0]}


def e43_2(g):
    place = {(ino, lbn + k): at + k * g["block"] for ino, lbn, count, at in g["maps"] for k in range(count)}
    live = sorted(at for at, ino, lbn in g["entries"] if place.get((ino, lbn)) == at)
    return {"dead": len(g["entries"]) - len(live), "live": numbers(live)}


def e43_3(g):
    u = g["live"] / g["per_segment"]
    return {"moved": g["segments"] * g["live"], "won": round(g["segments"] * (1 - u)), "cost": f"{2 / (1 - u) + 1e-9:.2f}"}


def e44_1(g):
    block = g["valid"].index(min(g["valid"]))
    moved = g["valid"][block]
    return {"block": block, "us": moved * (g["read"] + g["program"]) + g["erase"], "won": g["pages"] - moved}


def e44_2(g):
    where = {page: place // g["pages"] for place, page in enumerate(g["writes"])}
    blocks = math.ceil(len(g["writes"]) / g["pages"])
    valid = [sum(1 for block in where.values() if block == number) for number in range(blocks)]
    return {"block": where[g["asked"]], "valid": valid}


def half_up(a, b):
    return f"{(200 * a + b) // (2 * b) / 100:.2f}"


def e44_3(g):
    programmed = g["host"] + g["moved"]
    endures = g["blocks"] * g["pages"] * g["cycles"] * g["host"] // programmed // 1000
    return {"amplification": half_up(programmed, g["host"]), "cycles": half_up(g["erased"], g["blocks"]), "endures": endures}


def sums(data):
    xor = a = b = 0
    for byte in data:
        xor ^= byte
        a = (a + byte) % 255
        b = (b + a) % 255
    return xor, sum(data) % 256, (a, b)


def e45_1(g):
    xor, total, (a, b) = sums(g["data"])
    return {"xor": xor, "sum": total, "a": a, "b": b}


def e45_2(g):
    differ = ["no" if old == new else "yes" for old, new in zip(sums(g["data"]), sums(g["damaged"]))]
    return dict(zip(("xor", "sum", "fletcher"), differ), crc="yes")


def e45_3(g):
    if g["where"] != "inside the file":
        return {"read": "the right data", "scrubber": "no"}
    read = "an error" if g["checksums"] else "wrong data, and no error"
    return {"read": read, "scrubber": "yes" if g["checksums"] else "no"}


def e49_1(g):
    return {"lookup": g["path"].count("/"), "read": math.ceil(g["kib"] / g["rsize"]), "open": 0}


def e49_2(g):
    once = ("REMOVE", "MKDIR", "CREATE", "RENAME", "RMDIR")
    return {"different": numbers(n for n, call in enumerate(g["calls"], 1) if call.split()[0] in once)}


def e49_3(g):
    fresh = g["look"] < g["believed"]
    return {"length": g["old"] if fresh else g["new"], "asked": "no" if fresh else "yes"}


for line in sys.stdin:
    exercise = json.loads(line)
    solve = globals()["e" + exercise["id"].replace(".", "_")]
    print(json.dumps(solve(exercise["given"])))

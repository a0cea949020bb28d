#!/usr/bin/env python3
"""Searches a replacement policy by plain mutation, with nothing but `twinfs arena` and cargo.

    examples/arena/search.py --minutes 15 --seed 1 --dir /tmp/search

The policy is mixture.rs beside this file; a candidate is the same file with other constants. One of the best three is
changed in one to three constants, built, and judged on the public inputs of the task; the best is then judged on those
that the search did not see, and with --mount on a mount. Everything that was tried is in DIR/tried.jsonl.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent

#: The constants with the values that they may have.
SPACE = {
    "SMALL": [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9],
    "GHOSTS": [0.0, 0.3, 0.6, 0.9, 1.5, 2.0, 3.0],
    "MOST": [1, 2, 3, 5, 7, 15, 63],
    "PROMOTE": [1, 2, 3],
    "DECAY": [1, 2, 7],
    "HAND_STAYS": [False, True],
    "BACK": [0, 1, 2],
    "RUN_PROMOTE": [0, 1, 2, 4],
    "RUN_MAIN": [0, 1, 2, 4],
}
#: What the file has: S3-FIFO, nearly.
FIRST = {
    "SMALL": 0.1, "GHOSTS": 0.9, "MOST": 3, "PROMOTE": 1, "DECAY": 1,
    "HAND_STAYS": False, "BACK": 0, "RUN_PROMOTE": 0, "RUN_MAIN": 0,
}  # fmt: skip


def text_of(source: str, constants: dict) -> str:
    for name, value in constants.items():
        word = str(value).lower() if isinstance(value, bool) else repr(value)
        source, count = re.subn(rf"(const {name}: \w+ = )[^;]+;", rf"\g<1>{word};", source)
        assert count == 1, name
    return source


def mutated(constants: dict, draw: random.Random) -> dict:
    new = dict(constants)
    for name in draw.sample(sorted(SPACE), draw.choice([1, 1, 2, 3])):
        new[name] = draw.choice([value for value in SPACE[name] if value != new[name]])
    return new


class Search:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.dir = pathlib.Path(args.dir).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        self.crate = self.dir / "mixture"
        if not self.crate.exists():
            subprocess.run([args.twinfs, "new-policy", "mixture"], cwd=self.dir, check=True, capture_output=True)
        self.source = (HERE / "mixture.rs").read_text()

    def build(self, constants: dict) -> pathlib.Path:
        (self.crate / "src/lib.rs").write_text(text_of(self.source, constants))
        subprocess.run(
            ["cargo", "build", "--release", "--offline", "--quiet"], cwd=self.crate, check=True, capture_output=True
        )
        return self.crate / "target/release/libmixture.so"

    def judge(self, constants: dict, *more: str) -> dict:
        command = [
            self.args.twinfs, "arena", self.args.task, str(self.build(constants)), "--format", "json",
            "--reference", str(self.dir / "reference.json"), *more,
        ]  # fmt: skip
        # A refused policy is an answer too; anything else that fails has none.
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="replacement")
    parser.add_argument("--twinfs", default="twinfs")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", default="arena-search")
    parser.add_argument("--mount", action="store_true")
    parser.add_argument("--traces")
    args = parser.parse_args()
    search, draw = Search(args), random.Random(args.seed)
    begun, tried, seen = time.monotonic(), [], set()
    candidate = FIRST
    with open(search.dir / "tried.jsonl", "w", encoding="utf-8") as log:
        while True:
            seen.add(json.dumps(candidate))
            answer = search.judge(candidate)
            score = answer["combined_score"]
            tried.append((score, len(tried), candidate))
            tried.sort(key=lambda one: (-one[0], one[1]))
            print(json.dumps({"score": score, "metrics": answer["metrics"], "constants": candidate}), file=log, flush=True)
            print(f"{len(tried):4} {time.monotonic() - begun:6.0f} s  {score:.4f}  best {tried[0][0]:.4f}", flush=True)
            if time.monotonic() - begun > args.minutes * 60:
                break
            while json.dumps(candidate) in seen:
                candidate = mutated(draw.choice(tried[:3])[2], draw)
    best = tried[0][2]
    more = ["--held-out"] + (["--mount"] if args.mount else []) + (["--traces", args.traces] if args.traces else [])
    answer = search.judge(best, *more)
    print(json.dumps(best))
    print(answer["verdict"])
    print(json.dumps(answer["metrics"], indent=1))
    (search.dir / "best.json").write_text(json.dumps({"constants": best, "answer": answer}, indent=1))


if __name__ == "__main__":
    main()

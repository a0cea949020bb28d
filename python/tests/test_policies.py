"""Policies in Python: the counts of the built-in ones, errors as exceptions."""

from __future__ import annotations

import csv
import itertools
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import twinfs
from conftest import WORKLOAD
from twinfs import policies

SERVER = str(Path(__file__).resolve().parents[2] / "traces" / "server.tw")
names = (f"own-{number}" for number in itertools.count())


class Lru:
    """The least recently used block leaves."""

    def __init__(self, capacity: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def inserted(self, slot: int, key: object) -> None:
        self.order[slot] = None

    def touched(self, slot: int) -> None:
        self.order.move_to_end(slot)

    def removed(self, slot: int, why: str) -> None:
        self.order.pop(slot, None)

    def victim(self) -> Any:
        return next(iter(self.order), None)


class Sieve(Lru):
    """SIEVE: a hand over a FIFO queue that spares visited blocks."""

    def __init__(self, capacity: int) -> None:
        self.older: dict[int, int | None] = {}
        self.younger: dict[int, int | None] = {}
        self.visited: dict[int, bool] = {}
        self.oldest: int | None = None
        self.youngest: int | None = None
        self.hand: int | None = None

    def inserted(self, slot: int, key: object) -> None:
        self.older[slot], self.younger[slot], self.visited[slot] = self.youngest, None, False
        if self.youngest is None:
            self.oldest = slot
        else:
            self.younger[self.youngest] = slot
        self.youngest = slot

    def touched(self, slot: int) -> None:
        self.visited[slot] = True

    def removed(self, slot: int, why: str) -> None:
        if slot not in self.visited:
            return
        if self.hand == slot:
            self.hand = self.younger[slot]
        older, younger = self.older.pop(slot), self.younger.pop(slot)
        if older is None:
            self.oldest = younger
        else:
            self.younger[older] = younger
        if younger is None:
            self.youngest = older
        else:
            self.older[younger] = older
        del self.visited[slot]

    def victim(self) -> Any:
        for _ in range(2 * len(self.visited)):
            slot = self.oldest if self.hand is None else self.hand
            if slot is None:
                return None
            if not self.visited[slot]:
                self.hand = slot
                return slot
            self.visited[slot] = False
            self.hand = self.younger[slot]
        return None


def added(kind: Any, policy: Any) -> str:
    name = next(names)
    policies.add(kind, name, policy)
    return name


@pytest.mark.parametrize(("own", "built_in"), [(Lru, "lru"), (Sieve, "sieve")])
def test_counts_are_those_of_the_built_in_policy(own: Any, built_in: str) -> None:
    name = added("replacement", own)
    for objects in (False, True):
        answer = twinfs.cache(SERVER, [name, built_in], ["1M", "4M", "16M"], objects=objects)
        misses: dict[str, list[Any]] = {name: [], built_in: []}
        for row in answer:
            misses[row["policy"]].append((row["misses"], row["requests"]))
        assert misses[name] == misses[built_in] and len(misses[name]) == 3


def test_a_shared_trace_has_the_counts_of_its_table(shared: Path) -> None:
    trace, table = shared / "traces/cloudphysics-vm/cloudphysics.csv.zst", shared / "targets/cache_miss_counts.csv"
    if not (trace.exists() and table.exists()):
        pytest.skip("the shared trace is not there")
    lines = [line for line in table.read_text().splitlines() if not line.startswith("#")]
    counts = {row["policy"]: row for row in csv.DictReader(lines)}
    sizes = [column for column in counts["lru"] if column != "policy"]
    for own, built_in in [(Lru, "lru"), (Sieve, "sieve")]:
        answer = twinfs.cache(trace, [added("replacement", own)], [size.replace("iB", "") for size in sizes], objects=True)
        assert [row["misses"] for row in answer] == [int(counts[built_in][size]) for size in sizes]


def test_a_policy_runs_in_a_file_system() -> None:
    name = added("replacement", Lru)
    own, built_in = twinfs.compare(WORKLOAD, [f"lfs:cache=1M,replacement={name}", "lfs:cache=1M,replacement=lru"])
    for figure in ("finish_s", "written_bytes", "ops"):
        assert own[figure] == built_in[figure]


def test_policies_of_every_kind_run() -> None:
    class Greedy:
        def score(self, segment: policies.Segment, now: int) -> float:
            return -segment["utilization"]

    class TwoClasses:
        classes = 2

        def user_write(self, block: int, now: int, last_written: int | None) -> int:
            return 0 if last_written is None or now - last_written > 1000 else 1

        def cleaner_write(self, block: int, now: int, last_written: int | None, victim_class: int) -> int:
            return 0

    victim, placement = added("victim", Greedy), added("placement", TwoClasses)
    rows = twinfs.volume("zipf", blocks=4096, placement=["none", placement], victim=[victim, "greedy"])
    greedy = [row for row in rows if row["placement"] == "none"]
    assert len(rows) == 4 and len({row["write_amplification"] for row in greedy}) == 1

    class Idle:
        def decide(self, idle_s: float | None, clean_share: float, step_s: float) -> bool:
            return idle_s is not None

    class Nearest:
        def choose(self, head_at: int, waiting: Any) -> int:
            return min(range(len(waiting)), key=lambda at: waiting[at][4])

    class WriteAll:
        def __init__(self, age_s: float) -> None:
            pass

        def advise(self, oldest_s: float, dirty_bytes: int, capacity_bytes: int, files: Any) -> bool:
            assert sum(file[1] for file in files) <= dirty_bytes + (1 << 20)
            return True

    trigger, queue, flush = added("trigger", Idle), added("queue", Nearest), added("flush", WriteAll)
    configs = [f"lfs:size=64M,when={trigger}", f"lfs:size=64M,queue={queue}", f"lfs:size=64M,flush={flush}"]
    answer = twinfs.compare(WORKLOAD, configs)
    assert answer.is_whole and len(answer) == 3


def test_an_exception_of_a_hook_ends_the_call_with_it() -> None:
    class Broken(Lru):
        def touched(self, slot: int) -> None:
            raise KeyError("here")

    class Wrong(Lru):
        def victim(self) -> Any:
            return 123_456_789

    class Silly(Lru):
        def victim(self) -> Any:
            return "the oldest"

    for policy, kind, words in [(Broken, KeyError, "here"), (Wrong, ValueError, "123456789"), (Silly, ValueError, "the oldest")]:
        with pytest.raises(kind, match=words):
            twinfs.cache(SERVER, [added("replacement", policy)], ["1M"])
        # The next call is not concerned.
        assert len(twinfs.cache(SERVER, ["lru"], ["1M"])) == 1


def test_answers_with_which_time_would_stand_still_or_data_be_lost_are_refused() -> None:
    class Nan:
        def __init__(self, age_s: float) -> None:
            pass

        def advise(self, oldest_s: float, dirty_bytes: int, capacity_bytes: int, files: Any) -> Any:
            return float("nan")

    class Nowhere(Nan):
        def advise(self, oldest_s: float, dirty_bytes: int, capacity_bytes: int, files: Any) -> Any:
            return [999_999_999]

    class NanTrigger:
        def decide(self, idle_s: float | None, clean_share: float, step_s: float) -> float:
            return float("nan")

    class Last:
        def choose(self, head_at: int, waiting: Any) -> int:
            return len(waiting)

    for kind, key, policy, words in [
        ("flush", "flush", Nan, "no number"),
        ("flush", "flush", Nowhere, "numbers of dirty files"),
        ("trigger", "when", NanTrigger, "no number"),
        ("queue", "queue", Last, "requests wait"),
    ]:
        with pytest.raises(ValueError, match=words):
            twinfs.simulate(WORKLOAD, f"lfs:size=64M,{key}={added(kind, policy)}")


def test_names_are_given_once_and_kinds_are_known() -> None:
    name = added("replacement", Lru)
    with pytest.raises(ValueError, match="already"):
        policies.add("replacement", name, Lru)
    with pytest.raises(ValueError, match="already"):
        policies.add("replacement", "lru", Lru)
    with pytest.raises(ValueError, match="a name has letters"):
        policies.add("replacement", "two words", Lru)
    with pytest.raises(ValueError, match="the kinds of policies"):
        policies.add("colour", "blue", Lru)  # type: ignore[arg-type]

    class Empty:
        def __init__(self, capacity: int) -> None:
            pass

    with pytest.raises(ValueError, match="no method inserted"):
        twinfs.cache(SERVER, [added("replacement", Empty)], ["1M"])


def test_experiments_do_not_keep_results_of_policies_whose_code_is_not_known(experiment: Path) -> None:
    name = added("replacement", Lru)
    experiment.write_text(experiment.read_text().replace('base = "lfs"', f'base = "lfs:replacement={name}"'))
    with pytest.raises(twinfs.UsageError, match="is written in Python"):
        twinfs.run(experiment)
    assert not Path(f"{experiment}.runs").exists()

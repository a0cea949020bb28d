"""The arena from Python: names and classes are judged, those that cheat have 0."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import twinfs
from test_policies import Lru
from twinfs import policies
from twinfs._program import program

names = (f"judged-{number}" for number in itertools.count())

TASK = """
kind = "replacement"
rivals = ["lru", "fifo"]
score = { device-time = 1, write-cost = 1, at-risk = 1 }
budget = { cpu = 100, cpu-python = 5000, call = "1s", memory = "4G" }
[study]
disk = "disk-7200"
sizes = [0.1]
go-on = 0.1
seconds = 300
public = [{ workload = "zipf:file-bytes=1M,writes=1000,reads=50%" }]
held-out = [{ workload = "zipf:file-bytes=1M,writes=1000,reads=60%" }]
[simulation]
config = "lfs:size=32M,cache=256K"
go-on = 0.1
seconds = 300
public = [{ workload = "zipf:file-bytes=1M,writes=200,reads=50%" }]
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


def test_the_answer_is_that_of_the_command_line_but_for_what_it_took(task: Path) -> None:
    answer = twinfs.arena(task, "fifo", held_out=True)
    line = [program(), "arena", str(task), "fifo", "--held-out", "--format", "json"]
    printed = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    assert {name: answer[name] for name in ("combined_score", "rows", "verdict")} == {
        name: printed[name] for name in ("combined_score", "rows", "verdict")
    }
    assert answer["metrics"].keys() == printed["metrics"].keys()
    assert 0 < answer["combined_score"] <= 1


def test_a_class_is_judged_as_the_policy_that_it_is(task: Path) -> None:
    name = next(names)
    policies.policy("replacement", name)(Lru)
    own, native = twinfs.arena(task, name), twinfs.arena(task, "lru")
    assert own["combined_score"] == native["combined_score"]
    assert own["metrics"]["stages"] == 2


def test_a_class_that_is_moody_has_nothing(task: Path) -> None:
    calls = itertools.count()

    class Moody(Lru):
        def victim(self) -> Any:
            slots = list(self.order)
            return slots[next(calls) % len(slots)]

    name = next(names)
    policies.policy("replacement", name)(Moody)
    answer = twinfs.arena(task, name)
    assert answer["combined_score"] == 0 and answer["metrics"]["refused"] == 1
    assert answer["artifacts"]["check"] in ("future", "by-heart", "repeatable")

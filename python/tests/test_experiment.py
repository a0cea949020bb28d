"""Experiments, alone and on Dask: the same rows bit by bit, whatever happens to workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import twinfs


def content(store: Path) -> dict[str, bytes]:
    return {str(row.relative_to(store)): row.read_bytes() for row in store.rglob("*.json")}


def test_an_experiment_is_run_once(experiment: Path) -> None:
    first = twinfs.run(experiment)
    assert len(first) == 6 and first.is_whole and first.verdict
    kept = content(Path(f"{experiment}.runs"))
    assert len(kept) == 6
    second = twinfs.run(experiment)
    assert second.json == first.json and content(Path(f"{experiment}.runs")) == kept


def test_parts_and_stores(experiment: Path, tmp_path: Path) -> None:
    for part in (1, 2):
        twinfs.run(experiment, shard=f"{part}/2", store=tmp_path / f"part{part}")
    twinfs.merge([tmp_path / "part1", tmp_path / "part2"], tmp_path / "both")
    alone = twinfs.run(experiment, store=tmp_path / "alone")
    assert content(tmp_path / "both") == content(tmp_path / "alone")
    assert twinfs.diff(tmp_path / "alone", tmp_path / "both").is_whole
    with pytest.raises(twinfs.UsageError, match="sweep.toml"):
        experiment.write_text("workloads = 3")
        twinfs.run(experiment)
    assert alone.is_whole


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_rows_on_dask(experiment: Path, tmp_path: Path, workers: int) -> None:
    distributed = pytest.importorskip("distributed")
    alone = twinfs.run(experiment, store=tmp_path / "alone")
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = twinfs.run(experiment, client, store=tmp_path / "there")
    assert there.json == alone.json
    assert content(tmp_path / "there") == content(tmp_path / "alone")


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    path = tmp_path / "longer.toml"
    path.write_text('workloads = ["mail:messages=400"]\nconfigs = ["lfs", "ffs"]\nwith = "size=128M"\nseeds = 20\n')
    alone = twinfs.run(path, store=tmp_path / "alone")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        heard = []

        def kill(what: str, done: int, of: int | None) -> None:
            heard.append(done)
            if len(heard) == 1:
                os.kill(victim, signal.SIGKILL)

        there = twinfs.run(path, client, store=tmp_path / "there", progress=kill)
    assert there.json == alone.json
    assert content(tmp_path / "there") == content(tmp_path / "alone")

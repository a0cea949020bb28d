"""Experiments on Dask.

The runs of an experiment are divided into parts, as `twinfs run --shard` divides them, and each part is a task: its
result is the files that it adds to the store. A task depends on nothing but the experiment's own files, which each
worker gets once, so one whose worker was killed is made again elsewhere, and what has come back is in the store.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import tomllib
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _twinfs
from ._call import Told, call
from ._errors import TwinfsError
from ._progress import shown

if TYPE_CHECKING:
    from distributed import Client

#: The names and contents of files.
Files = dict[str, bytes]

#: Runs of a part at most, so that little is lost with a worker and the dashboard moves.
_MOST = 64
#: Parts for each thread of the cluster, so that slow ones are made up for.
_EACH = 4


def run_there(
    client: Client,
    path: str | os.PathLike[str],
    store: str | os.PathLike[str] | None,
    machine: str | os.PathLike[str] | None,
    progress: Told,
) -> None:
    """Makes the runs that the store lacks on the workers, and keeps their rows."""
    import distributed

    # The library has no types for its calls.
    as_completed: Any = distributed.as_completed
    cluster: Any = client
    path = Path(path)
    kept = Path(f"{path}.runs") if store is None else Path(store)
    jobs = call("run", path, store=store, machine=machine, list=True, progress=False).rows
    threads = max(1, sum(cluster.nthreads().values()))
    count = min(len(jobs), max(threads * _EACH, -(-len(jobs) // _MOST)))
    # A part has every count-th job.
    missing = [part for part in range(count) if not all(job["state"] != "missing" for job in jobs[part::count])]
    if not missing:
        return
    files = cluster.scatter(_files(path, machine), broadcast=True, hash=False)
    call_of = uuid.uuid4().hex[:8]
    futures = [
        cluster.submit(
            _part, files, path.name, None if machine is None else _MACHINE, f"{part + 1}/{count}", _build(),
            key=f"{_name(jobs[part], len(jobs[part::count]))}-{call_of}{part:06x}", pure=False,
        )
        for part in missing
    ]  # fmt: skip
    bar = shown() if progress is True else None
    told = bar if bar is not None else (progress if callable(progress) else None)
    try:
        for done, (_, rows) in enumerate(as_completed(futures, with_results=True), 1):
            for name, content in rows.items():
                _keep(kept / name, content)
            if told is not None:
                told("parts", done, len(futures))
    except BaseException:
        cluster.cancel(futures)
        raise
    finally:
        if bar is not None:
            bar.end()


#: The name of the machine file on workers.
_MACHINE = "machine-of-the-experiment.toml"


def _files(path: Path, machine: str | os.PathLike[str] | None) -> Files:
    """The experiment's file, and the files that it names as workloads."""
    text = path.read_bytes()
    experiment: dict[str, Any] = tomllib.loads(text.decode())
    named = [*experiment.get("workloads", []), *(each.get("base") for each in experiment.get("workload", []))]
    files = {path.name: text}
    for name in named:
        if isinstance(name, str) and (path.parent / name).is_file():
            files[name] = (path.parent / name).read_bytes()
    if machine is not None:
        files[_MACHINE] = Path(machine).read_bytes()
    return files


def _name(job: dict[str, Any], runs: int) -> str:
    """What the dashboard shows of a part: its first run."""
    more = f" and {runs - 1} more" if runs > 1 else ""
    # A dash would end the name for the dashboard.
    return f"{job['config']} {job['workload']} seed {job['seed']}{more}".replace("-", "_")


@functools.cache
def _build() -> str:
    """Tells builds of this package apart."""
    return hashlib.sha256(Path(_twinfs.__file__).read_bytes()).hexdigest()


def _part(files: Files, name: str, machine: str | None, shard: str, build: str) -> Files:
    """On a worker: makes a part of the runs, and returns what it adds to the store."""
    if _build() != build:
        raise TwinfsError(
            "a worker has another build of twinfs than this machine, so its rows would be others: install the same "
            "wheel everywhere",
            1,
        )
    with tempfile.TemporaryDirectory(prefix="twinfs-part-") as own:
        place = Path(own)
        for each, content in files.items():
            (place / each).parent.mkdir(parents=True, exist_ok=True)
            (place / each).write_bytes(content)
        store = place / "rows-of-this-part"
        given = None if machine is None else place / machine
        call("run", place / name, store=store, shard=shard, jobs=1, machine=given, progress=False)
        return {str(row.relative_to(store)): row.read_bytes() for row in store.rglob("*.json")}


def _keep(path: Path, content: bytes) -> None:
    """Writes a row, which is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    own.write_bytes(content)
    own.replace(path)

"""Experiments as files, on this machine or on a cluster."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._call import Told, call
from ._results import Result

if TYPE_CHECKING:
    from distributed import Client


def run(
    path: str | os.PathLike[str],
    client: Client | None = None,
    *,
    store: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    shard: str | None = None,
    machine: str | os.PathLike[str] | None = None,
    progress: Told = True,
) -> Result:
    """Runs the experiment of a file (docs/experiments.md) and returns all its rows.

    Results are kept in `store`, by default a directory beside the file: what is there is not run again, and a run that
    was interrupted or killed goes on where it was. With a `client` of Dask the runs go to its workers, and the rows
    are equal to those of this machine bit by bit; every worker must have this build of the package.
    """
    if client is not None:
        if shard is not None or jobs is not None:
            raise ValueError("run: shard and jobs are for one machine: leave them out with a client")
        from ._cluster import run_there

        run_there(client, path, store, machine, progress)
    return call(
        "run", path, store=store, jobs=jobs, shard=shard, machine=machine, progress=progress
    )  # fmt: skip

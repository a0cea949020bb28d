"""Experiments as files, on this machine or on a cluster."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from . import policies
from ._call import Told, call
from ._errors import UsageError
from ._results import Result

if TYPE_CHECKING:
    from distributed import Client


def _check_policies(path: str | os.PathLike[str]) -> None:
    """Refuses experiments with policies in Python: what the key of a result must hold, their code, is not known."""
    with open(path, encoding="utf-8") as file:
        words = set(re.findall(r"[\w.+-]+", file.read()))
    for name in policies.added & words:
        raise UsageError(
            f"{os.fspath(path)}: the policy {name!r} is written in Python, and results that are kept must say with which "
            "code they were made: use compare, or write it as a module (twinfs new-policy)",
            2,
        )


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
    _check_policies(path)
    if client is not None:
        if shard is not None or jobs is not None:
            raise ValueError("run: shard and jobs are for one machine: leave them out with a client")
        from ._cluster import run_there

        run_there(client, path, store, machine, progress)
    return call(
        "run", path, store=store, jobs=jobs, shard=shard, machine=machine, progress=progress
    )  # fmt: skip

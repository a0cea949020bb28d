"""Workloads as rows, in both directions."""

from __future__ import annotations

import csv
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _twinfs
from ._call import Told, call
from ._errors import TwinfsWarning

#: An operation: the columns of the format `path-operations` (docs/traces.md); None or a missing column is empty.
Operation = Mapping[str, Any]

_COLUMNS = ("op", "path", "to", "offset", "length", "at_s", "client")


def operations(
    workload: str | os.PathLike[str], *, format: str | None = None, seed: int = 1
) -> Iterator[dict[str, Any]]:
    """The operations of a trace in any format that twinfs reads, or of a generator, one after the other.

    Each is a dict with `op`, `path`, `to`, `offset` and `length` (bytes), `at_s` (seconds since the beginning),
    `client` and `failed`. Lookups, attributes other than lengths and extended attributes have no row; a warning at
    the end says how many there were.
    """
    rows = _twinfs.Operations(os.fspath(workload), format, seed)
    yield from rows
    if rows.left_out:
        warnings.warn(f"{rows.left_out:,} operations have no row", TwinfsWarning, stacklevel=2)


def write_operations(
    rows: Iterable[Operation] | Any, path: str | os.PathLike[str], *, progress: Told = True
) -> None:
    """Writes a workload from rows, which may be a generator, or from a DataFrame of pandas or polars.

    The columns are those of `operations`; rows that `failed` are left out, with a warning. Then `path` is a trace for
    every command. Raises UsageError or TwinfsError, with the number of the row's line, if a row makes no sense.
    """
    failed = 0
    with tempfile.TemporaryDirectory(prefix="twinfs-") as own:
        table = os.path.join(own, "operations.csv")
        with open(table, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            # Times are there for all rows or for none, which the first one decides.
            columns: list[str] | None = None
            for row in _rows(rows):
                if columns is None:
                    columns = [name for name in _COLUMNS if name in row or name in ("op", "path")]
                    writer.writerow(columns)
                if row.get("failed"):
                    failed += 1
                    continue
                writer.writerow([_cell(row.get(name)) for name in columns])
            if columns is None:
                raise ValueError("write_operations: there is no row")
        call("convert", table, output=path, trace_format="path-operations", progress=progress)
    if failed:
        warnings.warn(f"{failed:,} operations failed and were left out", TwinfsWarning, stacklevel=2)


def _rows(rows: Any) -> Iterator[Operation]:
    """Rows of a table of pandas or polars, or of anything that can be gone through."""
    if hasattr(rows, "iter_rows"):
        return iter(rows.iter_rows(named=True))
    if hasattr(rows, "to_dict"):
        return iter(rows.to_dict("records"))
    return iter(rows)


def _cell(value: Any) -> Any:
    """A missing number is empty, as tables write it in several ways."""
    return "" if value is None or value != value else value

"""Workloads from rows, and rows from workloads."""

from __future__ import annotations

from pathlib import Path

import pytest
import twinfs
from conftest import CONFIGS, WORKLOAD

SERVER = Path(__file__).resolve().parents[2] / "traces" / "server.tw"
ROWS = [
    {"op": "mkdir", "path": "logs", "at_s": 0.0},
    {"op": "write", "path": "logs/today", "length": 100, "at_s": 0.5},
    {"op": "fsync", "path": "logs/today", "at_s": 0.5},
    {"op": "read", "path": "old, file", "offset": 4096, "length": 10, "at_s": 1.5},
]


def essence(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in ("op", "path", "to", "offset", "length", "client")) for row in rows]


def test_rows_become_a_workload_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "work.tw"
    with pytest.warns(twinfs.TwinfsWarning, match="existed before"):
        # Columns are those of the first row.
        twinfs.write_operations((dict.fromkeys(["offset", "length"]) | row for row in ROWS), path)
    with pytest.warns(twinfs.TwinfsWarning, match="no row"):
        rows = list(twinfs.operations(path))
    assert [(row["op"], row["path"]) for row in rows if row["op"] not in ("create", "close")] == [
        (row["op"], row["path"]) for row in ROWS
    ]
    assert rows[-1]["at_s"] == 1.5 and rows[-1]["offset"] == 4096
    answer = twinfs.compare(path, CONFIGS)
    assert answer.is_whole and len(answer) == 2


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_is_a_workload(tmp_path: Path, library: str) -> None:
    frames = pytest.importorskip(library)
    frame = frames.DataFrame([{"offset": None, "length": None} | row for row in ROWS])
    twinfs.write_operations(frame, tmp_path / "frame.tw")
    twinfs.write_operations([{"offset": None, "length": None} | row for row in ROWS], tmp_path / "rows.tw")
    assert (tmp_path / "frame.tw").read_bytes() == (tmp_path / "rows.tw").read_bytes()


def test_a_generated_workload_written_as_rows_has_the_same_rows(tmp_path: Path) -> None:
    first = [row for row in twinfs.operations(WORKLOAD) if not row["failed"]]
    twinfs.write_operations(first, tmp_path / "again.tw")
    second = list(twinfs.operations(tmp_path / "again.tw"))
    kept = [row for row in essence(first) if row[0] not in ("create", "close", "truncate")]
    assert [row for row in essence(second) if row[0] not in ("create", "close", "truncate")] == kept


def test_a_wrong_row_is_named_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(twinfs.TwinfsError, match="line 3.*wrote"):
        twinfs.write_operations([{"op": "create", "path": "a"}, {"op": "wrote", "path": "a"}], tmp_path / "x.tw")
    with pytest.raises(ValueError, match="there is no row"):
        twinfs.write_operations([], tmp_path / "x.tw")
    with pytest.raises(ValueError, match="no-such"):
        list(twinfs.operations("no-such-workload"))


def test_the_shipped_trace_has_rows() -> None:
    with pytest.warns(twinfs.TwinfsWarning, match="no row"):
        rows = list(twinfs.operations(SERVER))
    assert len(rows) > 1000 and {"read", "write"} <= {row["op"] for row in rows}

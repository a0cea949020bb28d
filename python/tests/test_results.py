"""Results for pandas, polars and DuckDB, without pyarrow."""

from __future__ import annotations

import csv
import importlib.util
import io
import pickle
from pathlib import Path

import pytest
import twinfs
from conftest import CONFIGS, WORKLOAD

SERVER = str(Path(__file__).resolve().parents[2] / "traces" / "server.tw")


@pytest.fixture(scope="module")
def answers() -> list[twinfs.Result]:
    """An answer of each kind that is quickly had."""
    return [
        twinfs.compare(WORKLOAD, CONFIGS, seeds=2, observe=["latencies", "queue-length"]),
        twinfs.simulate(WORKLOAD, "lfs"),
        twinfs.cache(SERVER, ["lru", "sieve"], ["4M", "16M"]),
        twinfs.volume("zipf", blocks=4096, placement=["none"], victim=["greedy"]),
        twinfs.call("presets"),
    ]


def test_pyarrow_is_not_needed() -> None:
    assert importlib.util.find_spec("pyarrow") is None, "this environment must be without pyarrow"


def lines(answer: twinfs.Result) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer._report.csv())))


def test_pandas_reads_each(answers: list[twinfs.Result]) -> None:
    for answer in answers:
        frame = answer.to_pandas()
        assert list(frame.columns) == list(lines(answer)[0]) and len(frame) == len(lines(answer))
    frame = answers[0].to_pandas()
    assert frame["finish_s"].dtype == "float64" and frame["ops"].dtype.kind in "if"


def test_polars_reads_each_through_arrow(answers: list[twinfs.Result]) -> None:
    import polars

    for answer in answers:
        frame = polars.DataFrame(answer)
        assert frame.columns == list(lines(answer)[0]) and frame.height == len(lines(answer))
        assert frame.equals(answer.to_polars())
        for name in frame.columns:
            assert frame[name].to_list() == answer.columns[name]


def test_duckdb_reads_each(answers: list[twinfs.Result]) -> None:
    import duckdb

    for answer in answers:
        rows = answer.to_pandas()
        assert duckdb.sql("select count(*) from rows").fetchall() == [(len(rows),)]
        assert duckdb.sql("select * from rows").columns == list(rows.columns)


def test_a_result_shows_itself(answers: list[twinfs.Result]) -> None:
    answer = answers[0]
    assert str(answer).startswith(answer.verdict.splitlines()[0][:40])
    assert answer._repr_html_().startswith("<div><p>") and "<table>" in answer._repr_html_()
    assert answer.html().startswith("<!doctype html>")


def test_results_are_saved_in_the_form_of_their_name(tmp_path: Path, answers: list[twinfs.Result]) -> None:
    answer = answers[0]
    for name in ["rows.csv", "answer.json", "page.html"]:
        answer.save(tmp_path / name)
    assert (tmp_path / "rows.csv").read_text() == answer._report.csv()
    with pytest.raises(ValueError, match="should end with"):
        answer.save(tmp_path / "rows.xlsx")


def test_events_are_a_table() -> None:
    answer = twinfs.compare("zipf:writes=4000", ["lfs:size=80M,cache=4M"], log=["operation", "queue", "checkpoint"])
    events = answer.events
    columns = events.columns
    assert set(columns["category"]) == {"operation", "queue", "checkpoint"}
    assert columns["event"].count("write") >= 4000 and max(took or 0 for took in columns["took_ns"]) > 0
    assert columns["at_s"] == sorted(columns["at_s"])


def test_results_go_to_other_processes_and_come_back(answers: list[twinfs.Result]) -> None:
    for answer in answers:
        there = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(answer))))
        assert there.columns == answer.columns and there.rows == answer.rows
        assert (there.verdict, there.title, str(there)) == (answer.verdict, answer.title, str(answer))
        assert (there.html(), there._repr_html_()) == (answer.html(), answer._repr_html_())
        assert there.notes == answer.notes and there.is_whole == answer.is_whole

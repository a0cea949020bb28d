"""What commands found."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _twinfs

if TYPE_CHECKING:
    import pandas
    import polars

Row = dict[str, Any]


class Table:
    """Rows with named columns, which pandas, polars, DuckDB and pyarrow read through Arrow's C interface.

    Units are in the names of columns: `finish_s`, `p99_us`, `size_bytes`; a share is from 0 to 1.
    """

    def __init__(self, native: _twinfs.Rows) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, in the order of rows; None where a row has none."""
        return self._native.columns()

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame of pandas, which must be installed."""
        import pandas

        return pandas.DataFrame(self.columns)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a DataFrame of polars, which must be installed."""
        import polars

        return polars.DataFrame(self)

    def __len__(self) -> int:
        return self._native.__len__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} rows: {', '.join(self.columns)}>"


class _Sent:
    """A report that comes from another process, in the forms in which it was written there."""

    def __init__(self, report: _twinfs.Report | _Sent, columns: dict[str, list[Any]]) -> None:
        self.title: str = report.title
        self.verdict: str = report.verdict
        self.partial: str | None = report.partial
        self._forms = (report.json(), report.csv(), report.html(), report.html_part(), report.text())
        self._columns = columns

    def json(self) -> str:
        return self._forms[0]

    def csv(self) -> str:
        return self._forms[1]

    def html(self) -> str:
        return self._forms[2]

    def html_part(self) -> str:
        return self._forms[3]

    def text(self, width: int | None = None) -> str:
        return self._forms[4]

    def rows(self) -> _twinfs.Rows:
        rows = [dict(zip(self._columns, row)) for row in zip(*self._columns.values())]
        return _twinfs.Rows.of_json(json.dumps(rows))


class Result(Table):
    """What a command found: its verdict, its rows, and its page."""

    def __init__(
        self,
        command: str,
        reports: Sequence[_twinfs.Report | _Sent],
        text: str,
        notes: list[str],
        events: list[str],
        is_whole: bool,
    ) -> None:
        #: The command.
        self.command = command
        self._report: _twinfs.Report | _Sent = reports[0] if reports else _twinfs.Report.empty(command)
        super().__init__(self._report.rows())
        #: What the command printed beside its results.
        self.text = text
        #: What it said on standard error: what it assumed, left out or lost.
        self.notes = notes
        #: False if something that was asked for could not be done, such as a configuration that cannot run: rows and
        #: notes say what. The exit status of the command would be 1.
        self.is_whole = is_whole
        self._events = events
        self._json: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # For other processes (multiprocessing, joblib, Dask, submitit), which get every form as it is written here.
        sent = _Sent(self._report, self.columns)
        return Result, (self.command, [sent], self.text, self.notes, self._events, self.is_whole)

    @property
    def title(self) -> str:
        """What was measured."""
        return self._report.title

    @property
    def verdict(self) -> str:
        """The answer in sentences; empty if the command answers no question."""
        return self._report.verdict

    @property
    def partial(self) -> str | None:
        """Why this is not the whole answer; None if it is."""
        return self._report.partial

    @property
    def json(self) -> Any:
        """The answer as `--format json` prints it (docs/results.md)."""
        if self._json is None:
            self._json = json.loads(self._report.json())
        return self._json

    @property
    def rows(self) -> list[Row]:
        """The rows as `--format json` has them, with what does not fit into a table."""
        answer = self.json
        return answer["rows"] if isinstance(answer, dict) and "rows" in answer else answer  # type: ignore[no-any-return]

    @property
    def details(self) -> Any:
        """What does not fit into rows, of some commands."""
        return self.json.get("details") if isinstance(self.json, dict) else None

    @property
    def events(self) -> Table:
        """The events of the runs, one a row, if `log=` asked for some: the time in virtual seconds (`at_s`), the
        configuration if there are several, the category, the event, and its figures as columns."""
        return Table(_twinfs.Rows.of_json(json.dumps([_event(line) for line in self._events])))

    def html(self) -> str:
        """A page of its own, which needs no network."""
        return self._report.html()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows or the page, as the ending of the name says: `.csv`, `.json` or `.html`."""
        forms = {".csv": self._report.csv, ".json": self._report.json, ".html": self._report.html}
        ending = os.path.splitext(os.fspath(path))[1]
        if ending not in forms:
            raise ValueError(f"{os.fspath(path)}: the name should end with {', '.join(forms)}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(forms[ending]())

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        return self.rows[at]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __str__(self) -> str:
        return self._report.text().rstrip() + (f"\n{self.text.rstrip()}" if self.text else "")

    def _repr_html_(self) -> str:
        return self._report.html_part()

    def __repr__(self) -> str:
        return str(self)


_EVENT = re.compile(r"^(?:(?P<config>.+): )?(?P<at_s>\d+\.\d+) (?P<category>\S+) (?P<event>\S+)(?P<figures>.*)$")


def _event(line: str) -> Row:
    """The row of a line of `--log`."""
    found = _EVENT.match(line)
    if found is None:
        return {"event": line}
    row: Row = {name: value for name, value in found.groupdict().items() if value and name != "figures"}
    row["at_s"] = float(row["at_s"])
    for figure in found["figures"].split():
        name, _, value = figure.partition("=")
        row[name] = int(value) if value.lstrip("-").isdigit() else value
    return row

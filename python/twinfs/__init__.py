"""twinfs: what would this workload do on that design and that disk?

    import twinfs
    answer = twinfs.compare("mail:messages=200", ["lfs", "ffs"], seeds=5)
    print(answer.verdict)
    answer.to_pandas()

Functions are the commands of the program and results their answers: a verdict, rows for pandas, polars and DuckDB, and
a page. Start at `compare`, `cache` and `run`; `config` writes configurations, `mount` mounts a volume.
"""

from . import _twinfs, policies
from ._api import (
    age,
    arena,
    cache,
    check,
    clean,
    compare,
    config,
    convert,
    diff,
    forecast,
    frontier,
    layout,
    list_settings,
    merge,
    mkfs,
    reproduce,
    simulate,
    volume,
)
from ._call import call
from ._errors import TwinfsError, TwinfsWarning, UsageError
from ._experiment import run
from ._mount import mount
from ._results import Result, Table
from ._traces import operations, write_operations

__version__ = _twinfs.version()

__all__ = [
    "Result",
    "Table",
    "TwinfsError",
    "TwinfsWarning",
    "UsageError",
    "age",
    "arena",
    "cache",
    "call",
    "check",
    "clean",
    "compare",
    "config",
    "convert",
    "diff",
    "forecast",
    "frontier",
    "layout",
    "list_settings",
    "merge",
    "mkfs",
    "mount",
    "operations",
    "policies",
    "reproduce",
    "run",
    "simulate",
    "volume",
    "write_operations",
]

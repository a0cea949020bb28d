"""Mounts from Python."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._call import Value, words
from ._errors import TwinfsError, UsageError
from ._program import program


def _run(line: list[str]) -> None:
    """A command as a process of its own, which outlives this call where it is a daemon."""
    ended = subprocess.run([program(), *line], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        why = ended.stderr.strip().removeprefix("twinfs: ").removeprefix("error: ")
        kind = UsageError if ended.returncode == 2 else TwinfsError
        raise kind(why, ended.returncode)


@contextmanager
def mount(
    image: str | os.PathLike[str], path: str | os.PathLike[str] | None = None, **options: Value
) -> Iterator[Path]:
    """Mounts a volume for as long as the block lasts, and unmounts it whatever happens in it.

    Without `path` it is mounted on a directory of its own, which goes afterwards. Options are those of
    `twinfs mount`: `cache="64M"`, `record="work.tw"`. It needs Linux with /dev/fuse.

        with twinfs.mount("disk.img", record="work.tw") as path:
            (path / "hello").write_text("world")
    """
    with tempfile.TemporaryDirectory(prefix="twinfs-") as own:
        at = Path(own if path is None else path)
        _run(words("mount", [image, at], options))
        try:
            yield at
        finally:
            _run(words("umount", [at], {}))

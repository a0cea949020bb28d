"""Calls of commands: arguments as the command line has them, and what comes back."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union

from . import _twinfs
from ._errors import TwinfsError, TwinfsWarning, UsageError
from ._program import program
from ._progress import Progress, shown
from ._results import Result

#: A value of an option: a word, a number, a flag, or several words.
Value = Union[str, int, float, bool, "os.PathLike[str]", None, Iterable[Union[str, int, float]], Mapping[str, Any]]

#: Whether and to whom a call says how far it is: True shows it where somebody looks.
Told = Union[bool, Progress]

_twinfs.set_program(program(), _twinfs.__file__)


def word(value: object) -> str:
    """A value as a word of a command line."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def words(command: str, given: Iterable[object], options: Mapping[str, Value]) -> list[str]:
    """The words of a command line. Options are named as on the command line, with `_` for `-`."""
    line = [command]
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            line.append(option)
        elif isinstance(value, Mapping):
            line.append(f"{option}={','.join(f'{key}={word(each)}' for key, each in value.items())}")
        elif isinstance(value, (str, int, float, os.PathLike)):
            line.append(f"{option}={word(value)}")
        else:
            each = [word(one) for one in value]
            if each:
                line.append(f"{option}={','.join(each)}")
    # What follows is never an option, whatever it begins with.
    line.append("--")
    line.extend(word(one) for one in given)
    return line


#: The commands whose results are lists, and those that answer: all that take `--format`.
_WITHOUT_FORMAT = frozenset(
    ["mkfs", "umount", "convert", "merge", "fork", "snapshot", "send", "receive", "completions", "man", "dump"]
)


def call(command: str, *given: object, progress: Told = True, **options: Value) -> Result:
    """Carries out a command of the program in this process.

    `given` are its arguments, keywords its options: `call("compare", "lfs", "ffs", workload="mail", seeds=5)` is
    `twinfs compare lfs ffs --workload mail --seeds 5`. The simulator works without Python's lock, so other threads
    go on; Ctrl-C ends it.

    Raises UsageError if an argument is wrong and TwinfsError if the command fails, both in the words of the command
    line. What the command says beside its results becomes warnings of the kind TwinfsWarning.
    """
    if command not in _WITHOUT_FORMAT and "format" not in options:
        options["format"] = "json"
    native = _twinfs.Call(words(command, given, options))
    # Interrupts reach the first thread alone, and only there is progress shown without disturbing others.
    is_first = threading.current_thread() is threading.main_thread()
    bar = shown() if progress is True and is_first else None
    told = bar if bar is not None else (progress if callable(progress) else None)
    try:
        status, why = native.run(told)
    finally:
        if bar is not None:
            bar.end()
    reports, text, notes, events = native.said()
    for note in notes:
        warnings.warn(note.removeprefix("twinfs: "), TwinfsWarning, stacklevel=3)
    if why is not None:
        why = why.strip().removeprefix("error: ")
        raise UsageError(why, status) if status == 2 else TwinfsError(why, status)
    return Result(command, reports, text, notes, events, status == 0)

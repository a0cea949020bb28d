"""How far a command is: a line on a terminal, or one below the cell of a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

#: Hears what is counted, how much is done, and of how much (None if that is not known).
Progress = Callable[[str, int, "int | None"], None]

_FIRST_S = 0.5
_EVERY_S = 0.2


class _Shown:
    """Shows progress from half a second on, five times a second, and leaves nothing behind."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._next = time.monotonic() + _FIRST_S
        self._shown = False

    def __call__(self, what: str, done: int, of: int | None) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        self._shown = True
        share = f" of {of:,} ({done / of:.0%})" if of else ""
        self._show(f"{what}: {done:,}{share}")

    def end(self) -> None:
        if self._shown:
            self._show("")


def _on_terminal(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()


def _in_notebook() -> Callable[[str], None] | None:
    """Shows a text below the cell; None outside of notebooks."""
    python = sys.modules.get("IPython")
    shell: Any = python.get_ipython() if python is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    handle: Any = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
    return lambda text: handle.update({"text/plain": text}, raw=True)


def shown() -> _Shown | None:
    """Progress where somebody looks: in notebooks and on terminals."""
    show = _in_notebook()
    if show is None and sys.stderr.isatty():
        show = _on_terminal
    return _Shown(show) if show else None

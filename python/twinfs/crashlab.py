"""The crash lab in tests: does what was acknowledged survive a power failure?

    def test_a_row_survives(crashlab):
        with crashlab.volume() as volume:
            database = Database(volume.path / "rows.db")
            database.commit("42")
            volume.ack("42")
        for state in crashlab.states():
            rows = Database(state.path / "rows.db").rows()
            assert set(state.acked) <= set(rows)

The fixture `crashlab` comes with the package (a plugin of pytest). It needs Linux with /dev/fuse.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ._errors import TwinfsError
from ._program import program

_GREETING = "twinfs-crashlab-session 1"


class CrashLabError(TwinfsError):
    """The lab cannot do what it is asked, or is broken."""

    def __init__(self, why: str) -> None:
        super().__init__(why, 3)


class _Session:
    """A process that serves one volume, and the connection to it."""

    def __init__(self, like: str, layout: str, size: str, seed: int, limit: int) -> None:
        words = ["crashlab", "--session", "--like", like, "--layout", layout, "--size", size]
        words += ["--seed", str(seed), "--states", str(limit)]
        self.process = subprocess.Popen(
            [program(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        greeting = self.process.stdout.readline().strip()
        if greeting != _GREETING:
            why = self.process.communicate()[1].strip().removeprefix("twinfs: ")
            raise CrashLabError(why or f"the lab begins with {greeting!r}")
        told = dict(self.process.stdout.readline().rstrip("\n").split(" ", 1) for _ in range(3))
        self.volume = Path(told["volume"])
        self.acks = Path(told["acks"])
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(told["socket"])
        self._lines: BinaryIO = self._socket.makefile("rb")
        self._gone = weakref.finalize(self, self.process.kill)

    def ask(self, line: str) -> str:
        if "\n" in line:
            raise ValueError(f"{line!r}: must be one line")
        try:
            self._socket.sendall(line.encode() + b"\n")
            answer = self._lines.readline().decode().rstrip("\n")
        except OSError as error:
            raise CrashLabError(f"the lab has gone: {error}") from error
        if not answer:
            raise CrashLabError(f"the lab has gone: {self._said()}")
        if answer.startswith("error "):
            raise CrashLabError(answer.removeprefix("error "))
        return answer

    def read(self, count: int) -> bytes:
        return self._lines.read(count)

    def _said(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stderr is not None
        return self.process.stderr.read().strip()

    def close(self) -> None:
        self._gone.detach()
        self._lines.close()
        self._socket.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Volume:
    """A volume that keeps every write, name and sync. `path` is its directory."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self.path = session.volume
        #: The file to which any program may add a label, a line each.
        self.acks = session.acks

    def ack(self, label: str) -> None:
        """From now on `label` is promised: states of a later failure have it in `acked`."""
        self._session.ask(f"ack {label}")

    def cut(self) -> None:
        """The power fails now: what is done from now on is in no state."""
        self._session.ask("cut")

    def fail(self, call: str, nth: int | None = None, error: str = "EIO") -> None:
        """The `nth` call of this kind from now on fails, or every one; `error` is EIO or ENOSPC.

        Kinds are `write`, `fsync`, `create`, `rename`, `unlink` and others (docs/crashlab.md).
        """
        fault = {"EIO": "device", "ENOSPC": "no-space"}.get(error)
        if fault is None:
            raise ValueError(f"{error}: must be EIO or ENOSPC")
        self._session.ask(f"fail {call} {'*' if nth is None else nth} {fault}")

    def heal(self) -> None:
        """No call fails any more."""
        self._session.ask("heal")


@dataclass
class State:
    """What a power failure could have left. `path` is where the volume was; it may be changed."""

    name: str
    path: Path
    #: What was acknowledged before the failure; without acknowledgements, the fsyncs.
    acked: list[str] = field(default_factory=list)


class CrashLab:
    """A run of a program on a volume, and the states that a power failure could have left of it."""

    def __init__(self) -> None:
        self._session: _Session | None = None
        self._over = False
        #: The state that was given last and not passed.
        self.current: State | None = None
        #: Operations, syncs and acknowledgements of the run.
        self.counts: tuple[int, int, int] | None = None

    @contextmanager
    def volume(
        self, like: str = "ext4", layout: str = "lfs", size: str = "256M", seed: int = 1, limit: int = 2000
    ) -> Iterator[Volume]:
        """A new volume, mounted for as long as the block lasts.

        Its states are those of the file system that it is `like` (`ext4`, `xfs`, `posix`, or `strict` for `layout`),
        at most `limit` of them.
        """
        self.close()
        session = self._session = _Session(like, layout, size, seed, limit)
        self._over = False
        try:
            yield Volume(session)
        except BaseException:
            self.close()
            raise
        words = session.ask("end").split()[1:]
        self.counts = (int(words[0]), int(words[1]), int(words[2]))
        self._over = True

    def states(self, at: int | str | None = None) -> Iterator[State]:
        """Each state once. The files of one are there until the next is asked for.

        `at` leaves only those of one moment: a number of operations, `"fsync 12"`, or `"end"`.
        """
        session = self._ended()
        if at is not None:
            session.ask(f"at {at}")
        while (answer := session.ask("next")) != "none":
            yield self._given(answer)
            if self.current is not None:
                session.ask("passed")
                self.current = None

    def state(self, name: str) -> State:
        """The state of this name, as a report has it: `15-14` is the first 15 writes and names without number 14."""
        return self._given(self._ended().ask(f"state {name}"))

    def failed(self, why: str) -> None:
        """Says that the state that was given last is wrong. Failing tests do it by themselves."""
        if self.current is not None:
            self._ended().ask("failed " + " ".join(why.split())[:500])
            self.current = None

    def report(self) -> dict[str, Any]:
        """What was found: the members are those of `twinfs crashlab --json`."""
        session = self._ended()
        count = int(session.ask("report").split()[1])
        report: dict[str, Any] = json.loads(session.read(count))
        return report

    def close(self) -> None:
        """Ends the session, and removes what it has made."""
        if self._session is not None:
            self._session.close()
        self._session = None
        self.current = None

    def _ended(self) -> _Session:
        if self._session is None or not self._over:
            raise CrashLabError("there is no run yet: states come after `with crashlab.volume()`")
        return self._session

    def _given(self, answer: str) -> State:
        _, name, acked = answer.split(" ", 2)
        session = self._ended()
        labels = Path(acked).read_text().splitlines()
        self.current = State(name, session.volume, labels)
        return self.current


def explained(report: dict[str, Any]) -> str:
    """The classes of a report, for people."""
    lines = []
    for number, found in enumerate(report.get("classes", []), 1):
        lines.append(f"{number}. {found['why']}")
        lines.append(f"   State {found['state']}. Acknowledged: {', '.join(map(str, found['acknowledged'][-3:])) or 'nothing'}")
        lines += [f"   {operation['fate']:>12}  {operation['operation']}" for operation in found["operations"]]
    return "\n".join(lines)


def is_possible() -> bool:
    """True where volumes can be mounted."""
    return os.path.exists("/dev/fuse")

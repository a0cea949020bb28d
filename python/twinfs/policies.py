"""Policies of your own, in Python.

A policy is a class with the methods of one of the protocols below. `add` gives it a name, which every configuration of
this process can use from then on, beside the built-in ones:

    class Fifo:
        def __init__(self, capacity):
            self.order = {}
        def inserted(self, slot, key):
            self.order[slot] = None
        def touched(self, slot):
            pass
        def removed(self, slot, why):
            self.order.pop(slot, None)
        def victim(self):
            return next(iter(self.order), None)

    twinfs.policies.add("replacement", "my-fifo", Fifo)
    twinfs.cache("server.tw", policies=["my-fifo", "lru"])
    twinfs.compare("mail", ["lfs:replacement=my-fifo", "lfs"])

The simulator makes an object for each run and calls its methods while other threads of Python wait. An exception, or
an answer that makes no sense, ends the call of the command with that exception. Mounts cannot use such policies,
because their daemon is a process without Python: `twinfs new-policy` begins one in Rust that runs everywhere, at full
speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Union

from . import _twinfs

Kind = Literal["replacement", "flush", "victim", "placement", "trigger", "queue"]

#: A block or an object: two numbers, the second one 0 for objects.
Key = tuple[int, int]

_Class = TypeVar("_Class", bound=type)

#: The names that were added in this process.
added: set[str] = set()


def add(kind: Kind, name: str, policy: Callable[..., Any], about: str | None = None) -> None:
    """Adds a policy of a kind under a name, for the rest of this process.

    `about` is what lists of policies say of it; otherwise the first line of its documentation. Raises ValueError if
    there is a policy of this name, or it cannot be written in a configuration.
    """
    first = (policy.__doc__ or "").strip().splitlines()
    _twinfs.add_policy(kind, name, about or (first[0] if first else "a policy in Python"), policy)
    added.add(name)


def policy(kind: Kind, name: str) -> Callable[[_Class], _Class]:
    """`add` as a decorator: `@policy("replacement", "my-fifo")`."""

    def decorated(of: _Class) -> _Class:
        add(kind, name, of)
        return of

    return decorated


class Replacement(Protocol):
    """Which block leaves a full cache. Blocks are known by the slots of the cache in which they are.

    For a block that is in no slot the cache calls `missed`, then `victim` and `removed` until there is room, then
    `inserted`; for one that is there `touched`.
    """

    def __init__(self, capacity: int) -> None:
        """A cache of `capacity` blocks, or bytes of objects."""

    def inserted(self, slot: int, key: Key) -> None:
        """A block came into a slot."""

    def touched(self, slot: int) -> None:
        """A block in a slot is used again."""

    def removed(self, slot: int, why: str) -> None:
        """A slot is not to be ranked any more: "evicted", "dirtied" (it comes back by `cleaned`) or "dropped"."""

    def victim(self) -> int | Iterable[int] | None:
        """The slot to evict, or slots in order of preference: of a file system's cache some may be in use."""

    # Optional: missed(key) -> bool, false to keep a block out; cleaned(slot, key), otherwise `inserted` is called.


class Segment(TypedDict):
    """What a cleaner knows of a segment of the log. Times count blocks that users wrote."""

    number: int
    #: The class of its blocks, as the placement policy has them.
    #  (`class` is a word of Python: segment["class"].)
    size_blocks: int
    live: int
    #: The share of its blocks that is live, 0 to 1.
    utilization: float
    #: When the youngest block in it was written.
    youngest_at: int
    sealed_at: int


class Victim(Protocol):
    """Which segment is cleaned next: the one with the highest score."""

    def score(self, segment: Segment, now: int) -> float | None:
        """The score of a segment; None leaves it out."""


class Placement(Protocol):
    """Which blocks are written together: each to the open segment of its class, from 0 to `classes` - 1."""

    classes: int

    def user_write(self, block: int, now: int, last_written: int | None) -> int:
        """The class of a block that a user writes; `last_written` is when one did before."""

    def cleaner_write(self, block: int, now: int, last_written: int | None, victim_class: int) -> int:
        """The class of a block that the cleaner moves out of a segment of `victim_class`."""


class Trigger(Protocol):
    """When the cleaner works beside making room."""

    def decide(self, idle_s: float | None, clean_share: float, step_s: float) -> bool | float | None:
        """True to clean a segment now, which takes about `step_s`; seconds after which to ask again; False or None to
        wait until something changes. `idle_s` is None while the device works for users."""


#: A dirty file: its number, its dirty bytes, and for how many seconds it is dirty.
DirtyFile = tuple[int, int, float]


class Flush(Protocol):
    """When dirty data is written."""

    def __init__(self, age_s: float) -> None:
        """The age limit that the configuration sets."""

    def advise(
        self, oldest_s: float, dirty_bytes: int, capacity_bytes: int, files: Sequence[DirtyFile]
    ) -> Union[bool, float, list[int], None]:
        """True to write all, a list of the numbers of files to write these, seconds after which to ask again, or None
        to wait for a change."""

    # Optional: start_bytes(capacity_bytes) -> int, from how many dirty bytes on to ask; otherwise a quarter.


#: A request at a disk: first byte, length, whether it reads, how long it waits, and how long the way to it takes (s).
Waiting = tuple[int, int, bool, float, float]


class Queue(Protocol):
    """The order in which a disk serves what waits."""

    def choose(self, head_at: int, waiting: Sequence[Waiting]) -> int | None:
        """Which of the waiting requests, in order of arrival, is next; None for the first."""

"""The commands of the program as functions.

Each function is the command of its name (`twinfs help NAME`): its arguments come first, its options are keywords with
`_` for `-`. Those written out here are the usual ones; every other option of the command may be given too, and a wrong
one is refused in the words of the command line. Sizes are numbers of bytes or texts such as "64M".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from ._call import Told, Value, call, word
from ._results import Result

PathLike = Union[str, "os.PathLike[str]"]
Size = Union[int, str]
#: A configuration as text ("lfs:cache=8M"), or by `config`.
Config = str


def config(base: str, /, **settings: Value) -> Config:
    """The text of a configuration: `config("lfs", cache="8M", disk="hp97560")` is "lfs:cache=8M,disk=hp97560".

    Names of settings have `_` for `-`; `list_settings()` shows all.
    """
    pairs = [f"{name.strip('_').replace('_', '-')}={_setting(value)}" for name, value in settings.items()]
    return base if not pairs else f"{base}{',' if ':' in base else ':'}{','.join(pairs)}"


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return word(value)


def list_settings() -> str:
    """All configurations, settings, components and generated workloads, as text."""
    return call("compare", list=True, format=None).text


def _workload(workload: PathLike | None, options: dict[str, Value]) -> None:
    """A trace if it is a path or names a file, otherwise the text of a generator or a description in TOML."""
    if workload is None:
        return
    text = os.fspath(workload)
    is_trace = not isinstance(workload, str) or (os.path.isfile(text) and not text.endswith(".toml"))
    options["trace" if is_trace else "workload"] = text


def compare(
    workload: PathLike | None = None,
    configs: Iterable[Config] = (),
    *,
    seeds: int = 1,
    seed: int | None = None,
    by: str | None = None,
    pace: str | None = None,
    speed: float | None = None,
    machine: PathLike | None = None,
    settings: str | Mapping[str, Value] | None = None,
    on: Sequence[str] | None = None,
    observe: Sequence[str] | str | None = None,
    what_if: bool = False,
    log: Sequence[str] | str | None = None,
    progress: Told = True,
    **options: Value,
) -> Result:
    """Simulates a workload on several configurations and says which wins.

    `workload` is the path of a trace, the text of a generator ("build:files=300") or the name of a description in
    TOML; without one it is the trace that comes with the program. Without `configs`, five typical ones are compared.
    Each row is a configuration with its figures (docs/results.md); `verdict` says what they mean. `settings` hold for
    all configurations; `on` also measures for real at these places ("lfs", "ext4", a directory).
    """
    _workload(workload, options)
    return call(
        "compare", *configs, seeds=seeds, seed=seed, by=by, pace=pace, speed=speed, machine=machine,
        **{"with": settings}, on=on, observe=observe, what_if=what_if, log=log, progress=progress, **options,
    )  # fmt: skip


def simulate(workload: PathLike | None, config: Config, *, progress: Told = True, **options: Value) -> Result:
    """Simulates a workload on one configuration: `compare` with a single row."""
    return compare(workload, [config], progress=progress, **options)  # type: ignore[arg-type]


def cache(
    trace: PathLike,
    policies: Sequence[str] | None = None,
    sizes: Sequence[Size] | None = None,
    *,
    objects: bool = False,
    frames: Sequence[int] | None = None,
    disk: str | None = None,
    progress: Told = True,
    **options: Value,
) -> Result:
    """Counts the misses of cache policies on a trace, a row for each policy and size.

    Without `policies` all are taken, and without `sizes` eleven shares of what the trace touches. With `objects`,
    whole objects of different sizes are cached.
    """
    return call(
        "cache", trace, policies=policies, sizes=sizes, objects=objects, frames=frames, disk=disk,
        progress=progress, **options,
    )  # fmt: skip


def volume(
    workload: Sequence[str] | str = (),
    *,
    placement: Sequence[str] | None = None,
    victim: Sequence[str] | None = None,
    exponent: Sequence[float] | None = None,
    progress: Told = True,
    **options: Value,
) -> Result:
    """Studies cleaning on a bare volume: write amplification of placement and victim policies."""
    loads = [workload] if isinstance(workload, str) else list(workload)
    if len(loads) == 1:
        options["workload"] = loads[0]
    elif loads:
        raise ValueError("volume: one generated workload a call")
    return call(
        "volume", placement=placement, victim=victim, exponent=exponent, progress=progress, **options
    )  # fmt: skip


def clean(image: PathLike, *, cleaner: str | None = None, progress: Told = True, **options: Value) -> Result:
    """Cleans the log of a volume that is not mounted."""
    return call("clean", image, cleaner=cleaner, progress=progress, **options)


def frontier(workload: PathLike | None = None, *, progress: Told = True, **options: Value) -> Result:
    """Shows what flush policies trade: bytes written against bytes at risk."""
    _workload(workload, options)
    return call("frontier", progress=progress, **options)


def forecast(*given: object, progress: Told = True, **options: Value) -> Result:
    """Shows how a volume ages under a workload."""
    return call("forecast", *given, progress=progress, **options)


def age(*given: object, progress: Told = True, **options: Value) -> Result:
    """Ages a volume by years of use in minutes."""
    return call("age", *given, progress=progress, **options)


def layout(image: PathLike, *, progress: Told = True, **options: Value) -> Result:
    """Shows how well the files of a volume are laid out."""
    return call("layout", image, progress=progress, **options)


def reproduce(claims: Iterable[str] = (), *, quick: bool = False, progress: Told = True, **options: Value) -> Result:
    """Repeats the measurements of five papers on models of their hardware, and judges them."""
    return call("reproduce", *claims, quick=quick, progress=progress, **options)


def arena(
    task: PathLike,
    policy: str,
    *,
    held_out: bool = False,
    mount: bool = False,
    reference: PathLike | None = None,
    traces: PathLike | None = None,
    progress: Told = True,
    **options: Value,
) -> dict[str, Any]:
    """Judges a policy on a task, for programs that search policies.

    `task` is "replacement", "flush", "victim" or the file of a task, `policy` a name, also of a class added by
    `policies.policy`, or the path of a module. The answer has `metrics`, `combined_score` and `artifacts`, as the
    EvaluationResult of OpenEvolve, and the `verdict` and `rows` that the command prints. The best policy of the program
    on the same inputs has a score of 1; a policy that cheats has 0, with the reason in `artifacts["refused"]`. An
    exception in a hook of a class is raised. `reference` is a file in which the figures of the program's own policies
    are kept between calls.
    """
    result = call(
        "arena", task, policy, held_out=held_out, mount=mount, reference=reference, traces=traces,
        progress=progress, **options,
    )  # fmt: skip
    names = ("metrics", "combined_score", "artifacts", "verdict", "rows")
    return {name: result.json[name] for name in names}


def mkfs(
    image: PathLike, *, layout: str = "lfs", size: Size | None = None, progress: Told = True, **options: Value
) -> None:
    """Makes a volume in an image file or on a block device."""
    call("mkfs", image, layout=layout, size=size, progress=progress, **options)


def check(image: PathLike, *, progress: Told = True, **options: Value) -> Result:
    """Checks that a volume is sound."""
    return call("check", image, progress=progress, **options)


def convert(trace: PathLike, output: PathLike, *, progress: Told = True, **options: Value) -> str:
    """Makes a recording of twinfs from a trace of another kind; what was assumed and left out becomes warnings."""
    return call("convert", trace, output=output, progress=progress, **options).text


def diff(first: PathLike, second: PathLike, *, by: str | None = None, threshold: float | None = None) -> Result:
    """Compares two stores of `run`; `is_whole` is False if something is worse by more than the threshold (percent)."""
    return call("diff", first, second, by=by, threshold=threshold)


def merge(stores: Iterable[PathLike], into: PathLike) -> str:
    """Puts stores of parts of an experiment together."""
    return call("merge", *stores, output=into).text

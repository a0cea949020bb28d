"""Writes the reference of the package's functions and classes, from the code's own signatures and words.

    python3 python/tests/reference.py > docs/python-reference.md

`test_reference.py` holds the document against it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

import twinfs
import twinfs.crashlab

HEAD = """\
# Reference of the package for Python

Made by `python/tests/reference.py` from the code's own signatures and words. [python.md](python.md) shows how they are used.
Units are in names: `_s` seconds, `_us` microseconds, `_bytes` bytes; a share is from 0 to 1. A `Size` is a number of bytes or a
text as "64M". `Told` is `True` (progress is shown where somebody looks), `False`, or a function of what, done and all.
Every function may raise `UsageError` (an argument is wrong) and `TwinfsError` (it cannot be carried out), with the words of
the command line, and `KeyboardInterrupt`; what a command assumed, left out or lost becomes a `TwinfsWarning`.
"""
#: Modules after the first, with the title of their part.
PARTS = [(twinfs.policies, "Policies: `twinfs.policies`"), (twinfs.crashlab, "The crash lab: `twinfs.crashlab`")]


def words(of: object) -> str:
    """Its documentation; indented parts become code."""
    lines = (inspect.getdoc(of) or "").splitlines()
    out: list[str] = []
    inside = False
    for line in lines:
        is_code = line.startswith("    ")
        if is_code and not inside:
            out.append("```python")
        elif inside and line and not is_code:
            out.insert(len(out) - (out[-1] == ""), "```")
        inside = is_code or (inside and not line)
        out.append(line.removeprefix("    ") if inside else line)
    return "\n".join(out + ["```"] if inside else out)


def signature(name: str, of: object) -> str:
    # Annotations are texts, and shown as such.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(of)))  # type: ignore[arg-type]
    if len(name) + len(text) < 100:
        return name + text
    inner, _, result = text.removeprefix("(").rpartition(")")
    depth, parts, start = 0, [], 0
    for at, letter in enumerate(inner):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append(inner[start:at].strip())
            start = at + 1
    parts.append(inner[start:].strip())
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def members(of: type) -> Iterator[tuple[str, str, object]]:
    """The public methods and properties of a class that say what they are."""
    for name, member in vars(of).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield name, f"{name}: {inspect.signature(member.fget).return_annotation}", member  # type: ignore[arg-type]
        elif inspect.isfunction(member):
            yield name, signature(name, member), member


def entry(name: str, of: object, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    if inspect.isclass(of):
        shown = f"class {name}"
        own = "__init__" in vars(of) and not issubclass(of, (Exception, twinfs.Table))
        yield f"```python\n{signature(shown, of) if own else shown}\n```\n"
        yield words(of) + "\n"
        for _, shape, member in members(of):
            yield f"```python\n{shape}\n```\n"
            if text := words(member):
                yield text + "\n"
    else:
        yield f"```python\n{signature(name, of)}\n```\n"
        yield words(of) + "\n"


def public(module: object) -> list[str]:
    names = getattr(module, "__all__", None)
    if names is not None:
        return list(names)
    own = vars(module).items()
    return [name for name, of in own if not name.startswith("_") and getattr(of, "__module__", "") == module.__name__]  # type: ignore[attr-defined]


def reference() -> str:
    out = [HEAD]
    functions = [name for name in twinfs.__all__ if callable(getattr(twinfs, name))]
    for name in sorted(functions, key=lambda name: (name[0].isupper(), name)):
        out.extend(entry(name, getattr(twinfs, name), 2))
    for module, title in PARTS:
        out.append(f"## {title}\n")
        out.append(words(module) + "\n")
        for name in public(module):
            of = getattr(module, name)
            if callable(of):
                out.extend(entry(name, of, 3))
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())

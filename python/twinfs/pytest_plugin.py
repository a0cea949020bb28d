"""The plugin of pytest: the fixture `crashlab`, and its report below a test that fails."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .crashlab import CrashLab


@pytest.fixture
def crashlab() -> Iterator[CrashLab]:
    """A volume and its states after power failures: see `twinfs.crashlab`."""
    from .crashlab import CrashLab, is_possible

    if not is_possible():
        pytest.skip("the crash lab needs /dev/fuse")
    lab = CrashLab()
    try:
        yield lab
    finally:
        lab.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    lab = getattr(item, "funcargs", {}).get("crashlab")
    if report.when == "call" and report.failed and lab is not None and lab.current is not None:
        from .crashlab import CrashLabError, explained

        state = lab.current
        try:
            lab.failed(str(call.excinfo.value) if call.excinfo else "failed")
            found = explained(lab.report())
        except CrashLabError as error:
            found = str(error)
        report.sections.append(("crashlab", f"in the state {state.name}, acknowledged {state.acked}\n{found}"))
    return report

"""The fixture `crashlab`: what is lost is found, what is synced is not, and nothing stays behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from twinfs.crashlab import CrashLab, CrashLabError

pytest_plugins = ["pytester"]


def replace(path: Path, content: str, careful: bool) -> None:
    """A new content under an old name."""
    new = path.with_suffix(".new")
    with open(new, "w") as file:
        file.write(content)
        if careful:
            file.flush()
            os.fsync(file.fileno())
    new.rename(path)
    if careful:
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def lost(crashlab: CrashLab, careful: bool) -> list[str]:
    """The states in which what was acknowledged is missing."""
    with crashlab.volume() as volume:
        for number in range(3):
            replace(volume.path / "f", str(number), careful)
            volume.ack(str(number))
    assert crashlab.counts is not None and crashlab.counts[2] == 3
    wrong = []
    for state in crashlab.states():
        file = state.path / "f"
        found = file.read_text() if file.exists() else "-1"
        if not found.strip() or int(found) < max([-1, *map(int, state.acked)]):
            wrong.append(state.name)
            crashlab.failed(f"found {found!r}")
    return wrong


def test_a_missing_sync_is_found_and_named(crashlab: CrashLab) -> None:
    assert lost(crashlab, careful=False)
    report = crashlab.report()
    assert report["verdict"] == "lost"
    assert "no fsync of" in report["classes"][0]["why"]


def test_what_is_synced_survives(crashlab: CrashLab) -> None:
    assert lost(crashlab, careful=True) == []
    assert crashlab.report()["verdict"] == "survived"


def test_a_state_is_found_again_by_its_name(crashlab: CrashLab) -> None:
    name = lost(crashlab, careful=False)[0]
    assert crashlab.state(name).name == name
    with pytest.raises(CrashLabError, match="no state"):
        crashlab.state("nonsense")


def test_states_of_one_moment(crashlab: CrashLab) -> None:
    with crashlab.volume() as volume:
        for number in range(2):
            with open(volume.path / str(number), "w") as file:
                file.write("x")
                os.fsync(file.fileno())
            volume.ack(str(number))
    # Before the second fsync the first file is certain.
    names = [sorted(path.name for path in state.path.iterdir()) for state in crashlab.states(at="fsync 2")]
    assert names and all("0" in found for found in names)
    assert all(state.acked == ["0"] for state in crashlab.states(at="fsync 2"))
    ends = list(crashlab.states(at="end"))
    assert ends and all(state.acked == ["0", "1"] for state in ends)


def test_a_cut_ends_what_states_have(crashlab: CrashLab) -> None:
    with crashlab.volume() as volume:
        (volume.path / "before").touch()
        volume.cut()
        (volume.path / "after").touch()
    found = {path.name for state in crashlab.states() for path in state.path.iterdir()}
    assert found == {"before"}


def test_calls_fail_as_they_are_told(crashlab: CrashLab) -> None:
    with crashlab.volume() as volume:
        file = os.open(volume.path / "f", os.O_CREAT | os.O_WRONLY)
        volume.fail("fsync", 2)
        os.write(file, b"one")
        os.fsync(file)
        with pytest.raises(OSError) as caught:
            os.fsync(file)
        assert caught.value.errno == errno.EIO
        volume.heal()
        volume.fail("write", error="ENOSPC")
        with pytest.raises(OSError) as caught:
            os.write(file, b"two")
        assert caught.value.errno == errno.ENOSPC
        os.close(file)
        with pytest.raises(CrashLabError, match="the calls are"):
            volume.fail("fly")
    assert any((state.path / "f").exists() for state in crashlab.states())


def test_nothing_stays_behind(crashlab: CrashLab) -> None:
    with crashlab.volume() as volume:
        place = volume.path.parent
        assert str(place) in Path("/proc/self/mounts").read_text()
    crashlab.close()
    assert not place.exists() and str(place) not in Path("/proc/self/mounts").read_text()


def test_an_error_in_the_program_ends_the_volume(crashlab: CrashLab) -> None:
    with pytest.raises(RuntimeError), crashlab.volume() as volume:
        place = volume.path.parent
        raise RuntimeError("the program fails")
    assert not place.exists()
    with pytest.raises(CrashLabError, match="no run yet"):
        next(crashlab.states())


def test_a_test_that_fails_shows_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(crashlab):
            with crashlab.volume() as volume:
                (volume.path / "f").write_text("x")
                volume.ack("x")
            for state in crashlab.states():
                assert "x" not in state.acked or (state.path / "f").read_text() == "x"
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*crashlab*", "in the state *", "*no fsync of*"])

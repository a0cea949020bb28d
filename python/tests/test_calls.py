"""Commands as functions: the same answers as the command line, errors in its words, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
import twinfs
from conftest import CONFIGS, WORKLOAD
from twinfs._program import program


def test_the_answer_is_that_of_the_command_line() -> None:
    answer = twinfs.compare(WORKLOAD, CONFIGS, seeds=3)
    line = [program(), "compare", *CONFIGS, "--workload", WORKLOAD, "--seeds", "3", "--json"]
    of_program = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    assert answer.json == of_program
    assert answer.verdict == of_program["verdict"] and answer.verdict
    assert [row["config"] for row in answer] == [row["config"] for row in of_program["rows"]]


def test_a_wrong_argument_is_refused_in_the_words_of_the_command_line() -> None:
    with pytest.raises(twinfs.UsageError, match="lfz") as error:
        twinfs.compare(WORKLOAD, ["lfz"])
    assert error.value.status == 2
    with pytest.raises(ValueError, match="--nonsense"):
        twinfs.compare(WORKLOAD, CONFIGS, nonsense=3)
    with pytest.raises(twinfs.TwinfsError, match="no-such-file"):
        twinfs.cache("no-such-file")


def test_what_could_not_be_done_is_said() -> None:
    answer = twinfs.compare("mail:messages=400,bytes=64K", ["lfs:size=8M"])
    assert not answer.is_whole


def test_configurations_can_be_written_with_keywords() -> None:
    assert twinfs.config("lfs", cache="8M", bytes_per_inode=4096) == "lfs:cache=8M,bytes-per-inode=4096"
    assert twinfs.config("lfs:size=64M", cache="8M") == "lfs:size=64M,cache=8M"
    assert twinfs.config("lfs") == "lfs"


def test_a_command_that_serves_is_refused() -> None:
    with pytest.raises(twinfs.UsageError, match="process of its own"):
        twinfs.call("mount", "disk.img", "mnt", format=None)


def test_notes_become_warnings(tmp_path: object) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = twinfs.compare(WORKLOAD, CONFIGS[:1], seeds=2)
    assert [str(each.message) for each in caught if each.category is twinfs.TwinfsWarning] == [
        note.removeprefix("twinfs: ") for note in result.notes
    ]


def test_other_threads_go_on_and_two_calls_run_at_once() -> None:
    counted = 0
    answers: list[twinfs.Result] = []
    threads = [
        threading.Thread(target=lambda: answers.append(twinfs.compare(WORKLOAD, CONFIGS))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        counted += 1
        time.sleep(0.001)
    assert len(answers) == 2 and answers[0].json == answers[1].json and counted > 0


def test_progress_is_told() -> None:
    heard: list[tuple[str, int, int | None]] = []
    twinfs.compare("mail:messages=3000", ["lfs"], progress=lambda *far: heard.append(far))
    assert heard and heard[-1][0] == "operations simulated"
    assert all(done <= (of or done) for _, done, of in heard)


INTERRUPTED = """
import signal, twinfs
# Shells have jobs in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begins", flush=True)
try:
    twinfs.compare("mail:messages=3000000", ["lfs:size=1G"])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # The process is as before: another call works.
    print(len(twinfs.compare("mail:messages=10", ["lfs"])), flush=True)
"""


def test_ctrl_c_ends_a_call_and_not_the_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begins\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out.split() == ["interrupted", "1"] and process.returncode == 0


def test_the_command_line_is_there_too(tmp_path: object) -> None:
    shown = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == f"twinfs {twinfs.__version__}"
    wrong = subprocess.run([sys.executable, "-m", "twinfs", "compare", "lfz"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "lfz" in wrong.stderr


def test_import_is_fast() -> None:
    took = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import twinfs"], check=True)
        imported = time.perf_counter() - started
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        took.append(imported - (time.perf_counter() - started))
    # Against Python's own start, so that a busy machine slows both.
    assert min(took) < 0.2


def test_a_volume_is_mounted_for_a_block(tmp_path: os.PathLike[str], mounts: None) -> None:
    image, trace = os.path.join(tmp_path, "disk.img"), os.path.join(tmp_path, "work.tw")
    twinfs.mkfs(image, size="64M")
    with pytest.raises(ZeroDivisionError), twinfs.mount(image, record=trace) as path:
        (path / "hello").write_text("world")
        raise ZeroDivisionError
    assert not os.path.ismount(path)
    assert twinfs.check(image).is_whole
    answer = twinfs.compare(trace, CONFIGS)
    assert len(answer) == 2
    with pytest.raises(twinfs.TwinfsError, match="no-such"), twinfs.mount("no-such.img"):
        pass

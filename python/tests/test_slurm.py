"""Slurm: the parts of an experiment as a job array, and through submitit, are the runs of one machine.

A cluster of one node is made for the tests, with daemons, ports and keys of its own below a temporary directory.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import twinfs
from test_experiment import content

DAEMONS = ["munged", "slurmctld", "slurmd", "sbatch", "sinfo"]
PARTS = 3

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until_idle(dir: Path) -> None:
    for _ in range(60):
        seen = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True).stdout
        if "idle" in seen:
            return
        time.sleep(1)
    pytest.fail(f"the node has not come up: {(dir / 'slurmctld.log').read_text()}")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"a cluster of one node needs root and slurm-wlm and munge ({', '.join(missing)} not found)")
    dir = tmp_path_factory.mktemp("slurm")
    # munged wants directories that only its user can write, from the root on.
    dir.parent.chmod(0o755), dir.chmod(0o755)
    for name, mode in [("state", 0o755), ("spool", 0o755), ("munge", 0o700)]:
        (dir / name).mkdir(mode=mode)
    key = dir / "munge/key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    text = CONFIGURATION.format(
        host=socket.gethostname().split(".")[0], dir=dir, ports=free_ports(2), processors=os.cpu_count()
    )
    (dir / "slurm.conf").write_text(text)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={dir}/munge.socket"]
    munge += [f"--{name}-file={dir}/munge/{name}" for name in ("pid", "log", "seed")]
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(dir / "slurm.conf")
    running = []
    try:
        for line in (munge, ["slurmctld", "-D"], ["slurmd", "-D"]):
            log = open(dir / f"{line[0]}.out", "w")
            running.append(subprocess.Popen(line, stdout=log, stderr=log))
        wait_until_idle(dir)
        yield dir
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(30)
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before


def test_a_job_array_makes_the_runs_of_one_machine(slurm: Path, experiment: Path, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("twinfs")
    work = f"{program} run {experiment} --shard $SLURM_ARRAY_TASK_ID/{PARTS} --store {tmp_path}/runs.$SLURM_ARRAY_TASK_ID"
    line = ["sbatch", "--wait", f"--array=1-{PARTS}", f"--output={tmp_path}/part.%a", "--wrap", work]
    subprocess.run(line, check=True, timeout=120, cwd=tmp_path)
    stores = [tmp_path / f"runs.{part}" for part in range(1, PARTS + 1)]
    assert all(content(store) for store in stores)
    twinfs.merge(stores, tmp_path / "all")
    alone = twinfs.run(experiment, store=tmp_path / "alone")
    assert content(tmp_path / "all") == content(tmp_path / "alone")
    assert twinfs.run(experiment, store=tmp_path / "all").json == alone.json


def test_submitit_makes_them_too(slurm: Path, experiment: Path, tmp_path: Path) -> None:
    submitit = pytest.importorskip("submitit")
    executor = submitit.AutoExecutor(str(tmp_path / "log"), cluster="slurm")
    executor.update_parameters(timeout_min=5, mem_gb=0.25)
    jobs = []
    with executor.batch():
        for part in range(1, PARTS + 1):
            store = str(tmp_path / f"runs.{part}")
            jobs.append(
                executor.submit(twinfs.run, str(experiment), shard=f"{part}/{PARTS}", store=store, progress=False)
            )
    # Its own wait for a result has no end, and here nothing keeps account of jobs that have failed.
    until = time.monotonic() + 240
    while not all(job.paths.result_pickle.exists() for job in jobs) and time.monotonic() < until:
        time.sleep(0.5)
    failures = [job.stderr() for job in jobs if not job.paths.result_pickle.exists()]
    assert not failures, failures
    parts = [job.result() for job in jobs]
    assert all(len(part) > 0 and part.verdict for part in parts)
    twinfs.merge([tmp_path / f"runs.{part}" for part in range(1, PARTS + 1)], tmp_path / "all")
    twinfs.run(experiment, store=tmp_path / "alone")
    assert content(tmp_path / "all") == content(tmp_path / "alone")

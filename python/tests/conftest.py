"""What tests share: small workloads, and the shared traces where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

#: Two generated configurations and a workload of a few hundred operations.
WORKLOAD = "mail:messages=40"
CONFIGS = ["lfs:size=64M", "ffs:size=64M"]
SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    return SHARED


@pytest.fixture
def mounts() -> None:
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounts need root and /dev/fuse")


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(
        """
        workloads = ["mail:messages=30"]
        with = "size=64M"
        seeds = 2
        [[config]]
        base = "lfs"
        grid = { cache = ["2M", "4M", "8M"] }
        """
    )
    return path

"""Where the command line of this package is."""

import shutil
import sys
from pathlib import Path


def program() -> str:
    """The file that starts the command `twinfs` of this package.

    Processes of their own are needed for what outlives a call, such as a mount.
    """
    beside = Path(sys.executable).with_name("twinfs")
    if beside.exists():
        return str(beside)
    # A script of `pip install --user` lies elsewhere.
    started = Path(sys.argv[0]) if sys.argv else Path()
    if started.name == "twinfs" and started.exists():
        return str(started.absolute())
    return shutil.which("twinfs") or str(beside)

"""The command `twinfs`, carried out by the module's own code."""

import sys

from . import _twinfs
from ._program import program


def main() -> int:
    """Carries out the command line of this process and returns its exit status."""
    _twinfs.set_program(program())
    return _twinfs.main(["twinfs", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

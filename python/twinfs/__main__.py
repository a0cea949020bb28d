"""The command `twinfs`, carried out by the module's own code."""

import sys

from . import _twinfs


def main() -> int:
    """Carries out the command line of this process and returns its exit status."""
    return _twinfs.main(["twinfs", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

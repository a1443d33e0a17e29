"""The command line: ``python -m stockade``, and the script ``stockade``."""

from __future__ import annotations

import os
import signal
import sys

from stockade._stockade import command_line


def main() -> int:
    """Runs the command line with the arguments of this process."""
    # As in any other executable; the command line handles the signals that it needs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Starts again by path: with `-m`, a file of the working directory could replace the package.
    leading = [os.path.abspath(__file__)]
    return command_line(sys.executable, leading, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

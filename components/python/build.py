"""Builds the component. `cargo xtask component python` runs it with the library `steady` loaded.

Usage: build.py LIBRARY WIT APP OUTPUT
"""

import ctypes
import sys

import componentize_py


def main():
    library, wit, app, output = sys.argv[1:]
    ctypes.CDLL(library).begin()
    sys.argv = ["componentize-py", "--quiet", "--wit-path", wit, "--world", "python"]
    sys.argv += ["componentize", "--python-path", app, "--output", output, "stockade_guest"]
    return componentize_py.script()


sys.exit(main())

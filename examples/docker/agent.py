"""The program of Dockerfile.agent-sandbox: prints its surroundings as a table."""

import os
import sys

from tabulate import tabulate

rows = [
    ("arguments", " ".join(sys.argv[1:])),
    ("user", os.getuid()),
    ("home", os.environ["HOME"]),
    ("directory", os.getcwd()),
]
print(tabulate(rows, tablefmt="plain"))

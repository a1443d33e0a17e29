"""Counts the words or the letters of a text."""

import json
import sys

arguments = json.load(sys.stdin)
text = arguments["text"]
if not text:
    sys.exit("there is nothing to count")
json.dump(len(text.split()) if arguments.get("unit") != "letters" else len(text), sys.stdout)

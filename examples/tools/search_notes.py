"""Runs on the host: finds notes by a word. The sandbox sees neither this file nor the notes."""

import json
import pathlib
import sys

arguments = json.load(sys.stdin)
word, most = arguments["word"].lower(), arguments.get("most", 20)
notes = pathlib.Path(__file__).parent / "notes"
found = [
    {"title": note.stem, "text": text}
    for note in sorted(notes.glob("*.txt"))
    if word in (text := note.read_text().strip()).lower()
]
if not found:
    sys.exit(f"no note has the word {word!r}")
json.dump(found[:most], sys.stdout)

"""Makes a small grey copy of a picture: `agent.py INPUT OUTPUT`."""

import sys

from PIL import Image

source, target = sys.argv[1:]
with Image.open(source) as picture:
    small = picture.convert("L").resize((picture.width // 4, picture.height // 4))
    print(f"{picture.format} {picture.width}x{picture.height} -> {small.width}x{small.height}")
small.save(target, format="PNG", optimize=True)

"""Makes a small grey copy of a picture: /input/photo.ppm to /output/thumbnail.pgm.

Run it with a tenth of a gigabyte, half a processor, one file to read and one directory to write:

    stockade run --memory 100m --cpus 0.5 \\
        --mount examples/image/photo.ppm:/input/photo.ppm --mount out:/output:rw \\
        examples/image/process.py
"""

from pathlib import Path


def read_picture(path):
    """Reads a binary PPM: width, height, and three bytes for each dot."""
    data = path.read_bytes()
    fields, position = [], 0
    while len(fields) < 4:
        end = position
        while not data[end : end + 1].isspace():
            end += 1
        fields.append(data[position:end])
        position = end + 1
    magic, width, height, brightest = fields[0], int(fields[1]), int(fields[2]), int(fields[3])
    if magic != b"P6" or brightest != 255:
        raise ValueError(f"{path} is not a PPM picture of 8 bits")
    return width, height, data[position : position + width * height * 3]


def thumbnail(width, height, dots, factor):
    """Every dot of the copy is the mean brightness of a square of the picture."""
    rows = []
    for top in range(0, height - factor + 1, factor):
        row = bytearray()
        for left in range(0, width - factor + 1, factor):
            total = 0
            for y in range(top, top + factor):
                start = (y * width + left) * 3
                for red, green, blue in zip(*[iter(dots[start : start + factor * 3])] * 3):
                    total += (299 * red + 587 * green + 114 * blue) // 1000
            row.append(total // (factor * factor))
        rows.append(bytes(row))
    return rows


width, height, dots = read_picture(Path("/input/photo.ppm"))
rows = thumbnail(width, height, dots, factor=4)
header = f"P5\n{len(rows[0])} {len(rows)}\n255\n".encode()
Path("/output/thumbnail.pgm").write_bytes(header + b"".join(rows))
print(f"{width}x{height} -> {len(rows[0])}x{len(rows)}, written to /output/thumbnail.pgm")

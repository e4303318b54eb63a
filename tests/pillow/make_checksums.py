#!/usr/bin/env python3
"""Writes checksums.json: what Pillow makes of images of known bytes, by each filter of resize() and
by convert("L"). A result of few bytes is stored in hexadecimal, any other as its CRC-32.

Needs numpy and Pillow 11: from 12.2 on it resizes the columns of some images before their rows.
"""
import json
import pathlib
import zlib

import numpy
import PIL
from PIL import Image

FILTERS = ["box", "bilinear", "hamming", "bicubic", "lanczos"]

# (height, width) of the image and of the result.
SIZES = [
    ((4, 5), (2, 3)),
    ((4, 5), (5, 7)),
    ((4, 5), (4, 2)),
    ((4, 5), (1, 5)),
    ((4, 5), (1, 1)),
    ((4, 5), (4, 5)),
    ((1, 1), (3, 4)),
    ((1, 6), (1, 2)),
    ((2, 1), (5, 2)),
    ((48, 36), (24, 18)),
    ((48, 36), (16, 12)),
    ((48, 36), (12, 9)),
    ((24, 18), (48, 36)),
    ((16, 12), (48, 36)),
    ((12, 9), (48, 36)),
    ((47, 37), (15, 12)),
    ((40, 31), (13, 17)),
    ((17, 13), (40, 31)),
    ((40, 31), (20, 40)),
    ((31, 40), (40, 20)),
    ((90, 61), (4, 3)),
    ((5, 3), (64, 101)),
    # Higher than 100 times its width.
    ((301, 3), (40, 2)),
    # A weight here depends on single precision in the Hamming window, and on its middle.
    ((77, 300), (7, 300)),
    ((81, 300), (23, 300)),
]


def pixels(height, width, channels):
    """Pseudo-random bytes."""
    i = numpy.arange(height * width * channels, dtype=numpy.uint64)
    values = (i * 2654435761 + i * i * 40503) >> 11 & 255
    shape = (height, width) if channels == 1 else (height, width, channels)
    return values.astype(numpy.uint8).reshape(shape)


def black_and_white(array):
    """The extremes, where the passes clamp most."""
    return (array // 128 * 255).astype(numpy.uint8)


def text_of(image):
    content = image.tobytes()
    return content.hex() if len(content) <= 45 else f"{zlib.crc32(content):08x}"


def resized(start, end, channels, extreme):
    array = pixels(*start, channels)
    image = Image.fromarray(black_and_white(array) if extreme else array)
    size = (end[1], end[0])
    return {
        "channels": channels,
        "from": start,
        "to": end,
        "black_and_white": extreme,
        "results": [text_of(image.resize(size, Image.Resampling[f.upper()])) for f in FILTERS],
    }


def colours():
    """Every 11th value of red, green and blue."""
    values = numpy.arange(0, 256, 11, dtype=numpy.uint8)
    grid = numpy.meshgrid(values, values, values, indexing="ij")
    return numpy.stack(grid, -1).reshape(1, -1, 3)


def main():
    assert PIL.__version__.startswith("11.")
    result = {
        "made_by": f"make_checksums.py, Pillow {PIL.__version__}",
        "filters": FILTERS,
        "resized": [
            resized(start, end, channels, extreme)
            for channels in (1, 3)
            for start, end in SIZES
            for extreme in ((False, True) if max(start) < 60 else (False,))
        ],
        "grey": zlib.crc32(Image.fromarray(colours()).convert("L").tobytes()),
    }
    rows = ",\n".join(json.dumps(each) for each in result["resized"])
    rest = {key: value for key, value in result.items() if key != "resized"}
    text = json.dumps(rest)[:-1] + ', "resized": [\n' + rows + "\n]}\n"
    (pathlib.Path(__file__).parent / "checksums.json").write_text(text)


if __name__ == "__main__":
    main()

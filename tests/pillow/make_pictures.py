#!/usr/bin/env python3
"""Writes pictures.json: what Pillow makes of pictures, resized, cropped and turned.

Needs numpy and Pillow 12: from 13 on it resizes the columns of some pictures before their rows.
"""
import json
import pathlib

import numpy
import PIL
from PIL import Image, ImageOps

ORIENTATION = 0x0112


def picture(seed, height, width, mode):
    shape = (height, width) if mode == "L" else (height, width, 3)
    pixels = numpy.random.RandomState(seed).randint(0, 256, shape, numpy.uint8)
    return Image.fromarray(pixels, mode)


def as_json(image):
    channels = 1 if image.mode == "L" else 3
    return {
        "height": image.height,
        "width": image.width,
        "channels": channels,
        "pixels": numpy.asarray(image).flatten().tolist(),
    }


def resized(image, resize):
    """torchvision.transforms.functional.resize of a PIL image."""
    if isinstance(resize, int):
        shorter, longer = sorted(image.size)
        other = int(resize * longer / shorter)
        resize = (resize, other) if image.height <= image.width else (other, resize)
    height, width = resize
    return image.resize((width, height), Image.BILINEAR)


def cropped(image, height, width):
    """torchvision.transforms.functional.center_crop of a PIL image."""
    top = int(round((image.height - height) / 2.0))
    left = int(round((image.width - width) / 2.0))
    return image.crop((left, top, left + width, top + height))


def fit_case(seed, mode, height, width, resize, size):
    image = picture(seed, height, width, mode)
    return {
        "image": as_json(image),
        "resize": resize,
        "size": size,
        "result": as_json(cropped(resized(image, resize), *size)),
    }


def upright_case(orientation):
    image = picture(40, 3, 4, "RGB")
    exif = image.getexif()
    exif[ORIENTATION] = orientation
    image.info["exif"] = exif.tobytes()
    return {
        "image": as_json(image),
        "orientation": orientation,
        "result": as_json(ImageOps.exif_transpose(image)),
    }


def main():
    fits = [
        fit_case(1, "RGB", 23, 31, 8, [8, 8]),
        fit_case(2, "RGB", 31, 23, 9, [8, 8]),
        fit_case(3, "L", 40, 17, 11, [8, 11]),
        fit_case(4, "RGB", 5, 7, 12, [12, 12]),
        fit_case(5, "L", 9, 14, [13, 10], [10, 7]),
        fit_case(6, "RGB", 32, 24, [6, 6], [5, 5]),
        fit_case(7, "L", 12, 12, 12, [9, 9]),
    ]
    path = pathlib.Path(__file__).parent / "pictures.json"
    result = {
        "made_by": f"make_pictures.py, Pillow {PIL.__version__}",
        "fits": fits,
        "uprights": [upright_case(orientation) for orientation in range(1, 9)],
    }
    path.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

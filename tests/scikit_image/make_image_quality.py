#!/usr/bin/env python3
"""Writes image_quality.json: scikit-image's PSNR and SSIM of images of known values, and its luma of
known colours.

Needs numpy and scikit-image 0.26.
"""
import json
import pathlib
import zlib

import numpy
import skimage
from skimage.color import rgb2ycbcr
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

# Channels, height, width, and the border that is cut off.
SHAPES = [
    (1, 11, 11, 0),
    (1, 12, 17, 0),
    (1, 40, 31, 0),
    (1, 40, 31, 3),
    (3, 23, 29, 0),
    (3, 23, 29, 2),
]


def noise(count, start):
    """Pseudo-random bytes."""
    i = numpy.arange(start, start + count, dtype=numpy.uint64)
    return (((i * 2654435761 + i * i * 40503) >> 11) & 255).astype(numpy.int64)


def images(channels, height, width):
    """A pattern of stripes with noise, and the same with other noise."""
    c, y, x = numpy.meshgrid(*map(numpy.arange, (channels, height, width)), indexing="ij")
    stripes = (5 * y + 9 * x + 40 * c) % 192
    size = channels * height * width
    return [stripes + noise(size, start).reshape(c.shape) // 4 for start in (0, 1000000)]


def case(channels, height, width, border, data_range):
    x, y = (image * (data_range / 255) for image in images(channels, height, width))
    cut = (slice(None), slice(border, height - border), slice(border, width - border))
    x, y = x[cut], y[cut]

    def ssim(**options):
        return structural_similarity(x, y, data_range=data_range, channel_axis=0, **options)

    gaussian = {"gaussian_weights": True, "sigma": 1.5}
    return {
        "channels": channels,
        "height": height,
        "width": width,
        "border": border,
        "data_range": data_range,
        "psnr": peak_signal_noise_ratio(x, y, data_range=data_range),
        "gaussian_population": ssim(**gaussian, use_sample_covariance=False),
        "gaussian_sample": ssim(**gaussian, use_sample_covariance=True),
        "uniform_population": ssim(use_sample_covariance=False),
        "uniform_sample": ssim(),
    }


def luma():
    """The CRC-32 of the rounded Y of every 11th value of red, green and blue."""
    values = numpy.arange(0, 256, 11, dtype=numpy.uint8)
    colours = numpy.stack(numpy.meshgrid(values, values, values, indexing="ij"), -1)
    exact = rgb2ycbcr(colours)[..., 0]
    assert numpy.abs(exact % 1 - 0.5).min() > 1e-6  # a half would round by chance
    return zlib.crc32(numpy.floor(exact + 0.5).astype(numpy.uint8).tobytes())


def main():
    result = {
        "made_by": f"make_image_quality.py, scikit-image {skimage.__version__}",
        "luma": luma(),
        "cases": [case(*shape, data_range) for shape in SHAPES for data_range in (255.0, 1.0)],
    }
    path = pathlib.Path(__file__).parent / "image_quality.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Reads the events of a run as TensorBoard does and compares them with its metrics and weights.

usage: read_events.py RUN             of 2 epochs
       read_events.py RUN --resumed   steps and epochs alone, of a run that went on from earlier checkpoints
"""
import json
import math
import pathlib
import struct
import sys
import zlib

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def read_tensors(path):
    """The tensors of a safetensors file, as flat lists of floats, with their shapes."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["shape"], struct.unpack(f"<{(end - start) // 4}f", data[start:end]))
    return tensors


def read_png(data):
    """Rows of bytes of a PNG whose lines are not filtered, or filtered by the plain types."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at:at + 4])
        if data[at + 4:at + 8] == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    lines, channels = zlib.decompress(packed), {0: 1, 2: 3}[colour]
    assert len(lines) == height * (1 + width * channels)
    return width, height, channels


def same(found, expected):
    assert math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-9), f"{found}, not {expected}"


def check_resumed(events, lines):
    steps = {"step": [line["step"] for line in lines if line["event"] == "step"],
             "epoch": [4 * line["epoch"] for line in lines if line["event"] == "epoch"]}
    for tag, event in (("loss/step", "step"), ("accuracy/validation", "epoch"), ("loss/train", "epoch")):
        found = [scalar.step for scalar in events.Scalars(tag)]
        assert found == steps[event], f"{tag}: {found}, not {steps[event]}"
    print(f"{len(steps['step'])} steps and {len(steps['epoch'])} epochs are there once")


def main():
    run = pathlib.Path(sys.argv[1])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    events = EventAccumulator(str(run), size_guidance={"scalars": 0, "histograms": 0, "images": 0})
    events.Reload()
    if "--resumed" in sys.argv:
        check_resumed(events, lines)
        return
    tags = events.Tags()

    epochs = [line for line in lines if line["event"] == "epoch"]
    steps = [line for line in lines if line["event"] == "step"]
    assert len(epochs) == 2 and len(steps) == 4, lines
    for tag, key in (("loss/train", "train_loss"), ("loss/validation", "val_loss"),
                     ("accuracy/train", "train_accuracy"), ("accuracy/validation", "val_accuracy"),
                     ("accuracy/top5", "val_top5"), ("images_per_second", "images_per_second")):
        found = events.Scalars(tag)
        assert [event.step for event in found] == [4, 8], tag
        for event, line in zip(found, epochs):
            same(event.value, line[key])
            assert event.wall_time > 1.6e9
    found = events.Scalars("loss/step")
    assert [event.step for event in found] == [2, 4, 6, 8]
    for event, line in zip(found, steps):
        same(event.value, line["loss"])
    rates = {event.step: event.value for event in events.Scalars("learning_rate")}
    for line in steps:
        same(rates[line["step"]], line["learning_rate"])

    # Histograms are those of the weights in the checkpoint.
    tensors = read_tensors(run / "checkpoints" / "last.safetensors")
    names = ["conv1.bias", "conv1.weight", "fc1.bias", "fc1.weight"]
    assert sorted(tags["histograms"]) == [f"weights/{name}" for name in names], tags
    for name in names:
        found = events.Histograms(f"weights/{name}")
        assert [event.step for event in found] == [4, 8]
        histogram, values = found[-1].histogram_value, tensors[name][1]
        same(histogram.min, min(values))
        same(histogram.max, max(values))
        same(histogram.num, len(values))
        same(histogram.sum, sum(values))
        same(histogram.sum_squares, sum(value * value for value in values))
        limits = histogram.bucket_limit
        assert len(limits) == len(histogram.bucket) == 30
        same(sum(histogram.bucket), len(values))
        for i, limit in enumerate(limits):  # a value at a limit may be rounded to either side
            below = sum(value < limit - 1e-6 for value in values)
            upto = sum(value <= limit + 1e-6 for value in values)
            assert below <= sum(histogram.bucket[:i + 1]) <= upto, (name, i)

    assert tags["images"] == ["filters/conv1.weight"], tags
    image = events.Images("filters/conv1.weight")[-1]
    assert (image.width, image.height, 3) == read_png(image.encoded_image_string)
    print(f"{sum(map(len, (tags['scalars'], tags['histograms'], tags['images'])))} tags are right")


if __name__ == "__main__":
    main()

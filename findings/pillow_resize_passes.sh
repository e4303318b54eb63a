#!/usr/bin/env bash
# Pillow 11.3.0 and 13.0.0: Image.resize() of 8-bit images makes other bytes of the same image with the same filter. It resizes in two
# passes and rounds and clamps to bytes between them; 11.3.0 resizes rows first, always, and 13.0.0 columns first where an image
# becomes lower and that costs less. A pair of images for super-resolution that is not shrunk by the same factor both ways, or a
# validation picture that is resized to another shape, is then another picture: by one level with BILINEAR, but by tens of levels
# with BICUBIC and LANCZOS, whose lobes are cut off at 0 and 255 in between. Shrinking by one factor both ways gives the same bytes.
# Pin Pillow where results are compared to the byte or PSNR to the second decimal.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh" numpy==2.3.5
cat >resized.py <<'PY'
import json
import sys

import numpy as np
import PIL
from PIL import Image

noise = lambda h, w: np.random.RandomState(0).randint(0, 2, (h, w)).astype(np.uint8) * 255
shapes = {"to another shape": ((96, 64), (96, 48)), "by 3 both ways": ((96, 96), (32, 32))}
made = {}
for name, ((h, w), size) in shapes.items():
    for filter in ("BILINEAR", "BICUBIC", "LANCZOS"):
        picture = Image.fromarray(noise(h, w)).resize(size, getattr(Image, filter))
        made[f"{name}, {filter}"] = np.asarray(picture).tolist()
json.dump({"version": PIL.__version__, "made": made}, sys.stdout)
PY
for version in 11.3.0 13.0.0; do
  venv/bin/pip install --quiet --disable-pip-version-check "pillow==$version"
  run_python <resized.py >"$version.json"
done
run_python <<'PY'
import json

import numpy as np

old, new = (json.load(open(name + ".json")) for name in ("11.3.0", "13.0.0"))
assert (old["version"], new["version"]) == ("11.3.0", "13.0.0")
most = {}
for name in old["made"]:
    difference = np.abs(np.array(old["made"][name]) - np.array(new["made"][name]))
    most[name] = int(difference.max())
    print(f"{name}: {(difference > 0).mean():.0%} of the bytes differ, by up to {most[name]}")
assert most["to another shape, LANCZOS"] > 20 and most["to another shape, BICUBIC"] > 20
assert most["to another shape, BILINEAR"] == 1
assert all(most[name] == 0 for name in most if name.startswith("by 3"))
PY

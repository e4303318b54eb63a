"""What the scripts beside this one share; each writes the file of its name. They need torch (the CPU's is enough)."""
import json
import pathlib
import sys

import torch


def hashed(first, count):
    """32 bits of each number from `first`: C. Wellons' lowbias32."""
    x = torch.arange(first, first + count)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = (x ^ (x >> shift)) * factor & 0xFFFFFFFF
    return x


def write(cases, **facts):
    """make_NAME.py writes NAME.json: a line for what is said of all cases, and one for each case."""
    script = pathlib.Path(sys.argv[0]).resolve()
    head = {
        "made_by": f"{script.name}, PyTorch {torch.__version__}",
        "again": f"pip install torch && python3 tests/pytorch/{script.name}",
        **facts,
    }
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path = script.with_name(script.stem.removeprefix("make_") + ".json")
    path.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n")

#!/usr/bin/env bash
# safetensors 0.8.0, NumPy 2.3.5: save_file() of an array that is a transposed or strided view writes the memory that the
# view lies in, not its elements, and says nothing; the file is valid and has the view's shape. Weights that are
# transposed on their way to another program (a linear layer's, from N x K to K x N) are wrong there.
# Pass numpy.ascontiguousarray(x).
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh" safetensors==0.8.0 numpy==2.3.5
run_python <<'PY'
import numpy as np
from safetensors.numpy import load_file, save_file

x = np.arange(6, dtype=np.float32).reshape(2, 3)
views = {"transposed": x.T, "every_other_column": x[:, ::2]}
save_file(views, "x.safetensors")
saved = load_file("x.safetensors")
for name, view in views.items():
    print(f"{name}: given {view.tolist()}, in the file {saved[name].tolist()}")
    assert saved[name].shape == view.shape
    assert not np.array_equal(saved[name], view), f"{name} is right now"
save_file({name: np.ascontiguousarray(view) for name, view in views.items()}, "x.safetensors")
assert all(np.array_equal(load_file("x.safetensors")[name], view) for name, view in views.items())
print("contiguous copies are saved right")
PY

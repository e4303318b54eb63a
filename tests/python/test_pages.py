"""The notebook docs/python.ipynb and the Python of docs/python.md run as they stand there."""

import contextlib
import io
import json
import os
import re
import tempfile
import unittest

import duet

DOCS = os.path.join(os.environ["DUET_REPOSITORY"], "docs")


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def run(blocks, name):
    """In one namespace, in an empty folder; what they print."""
    namespace = {}
    printed = io.StringIO()
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        os.chdir(folder)
        try:
            for number, text in enumerate(blocks, 1):
                exec(compile(text, f"{name}, block {number}", "exec"), namespace)
        finally:
            os.chdir(before)
    return printed.getvalue()


class Pages(unittest.TestCase):
    def test_notebook(self):
        with open(os.path.join(DOCS, "python.ipynb")) as file:
            notebook = json.load(file)
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertGreater(len(cells), 5)
        out = run(cells, "python.ipynb")
        self.assertRegex(out, r"loss \d\.\d+ -> \d\.\d+")
        self.assertIn("'custom_winograd' runs on the GPU" if duet.built_with_cuda() else "'custom_winograd'", out)

    def test_page(self):
        with open(os.path.join(DOCS, "python.md")) as file:
            blocks = re.findall(r"<!-- python( torch)? -->\n```python\n(.*?)```", file.read(), re.DOTALL)
        self.assertGreater(len(blocks), 4)
        out = run([text for torch, text in blocks if not torch or has_torch()], "python.md")
        self.assertIn("x (2x3x8x4 float32) has strides 192, 64, 8, 2 (elements)", out)


if __name__ == "__main__":
    unittest.main()

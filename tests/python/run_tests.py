"""Runs the tests beside this file with the duet that is installed, and says what was left out."""

import os
import sys
import unittest

here = os.path.dirname(os.path.abspath(__file__))


def main() -> int:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most of the GPU's memory
    import duet

    print(f"duet {duet.__version__} in {os.path.dirname(duet.__file__)}, Python {sys.version.split()[0]}")
    suite = unittest.defaultTestLoader.discover(here, top_level_dir=here)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    for test, reason in result.skipped:
        print(f"skipped: {test.id().split('.')[-1]}: {reason}")
    return 0 if result.wasSuccessful() and result.testsRun >= 10 else 1


if __name__ == "__main__":
    sys.exit(main())

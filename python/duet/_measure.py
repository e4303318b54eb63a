"""The process in which check, bench and compare measure: python -m duet._measure REQUEST.

Results go to standard output as JSON; an error to standard error, its last line as JSON."""

import json
import sys

from . import _duet
from ._errors import Error


def main() -> int:
    request = json.loads(sys.argv[1])
    try:
        _duet.load_kernels(request["kernels"])
        return getattr(_duet, request["function"])(**request["options"])
    except Error as error:
        told = {"error": type(error).__name__, "message": str(error)}
        print("\n" + json.dumps(told), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

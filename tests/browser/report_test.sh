#!/usr/bin/env bash
# Runs report_test.py with a Python that has Selenium; 77 where there is none.
# usage: report_test.sh WRITE_REPORT [TEST...]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import selenium' >/dev/null 2>&1; then
    exec "$python" -B "$here/report_test.py" "$@"
  fi
done
echo "skipped: no Python has Selenium (Debian: apt-get install python3-selenium)"
exit 77

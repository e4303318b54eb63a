#!/usr/bin/env bash
# Runs a test of this folder with a Python that has Selenium; 77 where there is none.
# usage: run.sh TEST.py [ARGUMENT...]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
test=$here/$1
shift
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import selenium' >/dev/null 2>&1; then
    exec "$python" -B "$test" "$@"
  fi
done
echo "skipped: no Python has Selenium (Debian: apt-get install python3-selenium)"
exit 77

# shellcheck shell=bash
# Sourced: a temporary folder, removed at the end, with a Python that has the packages named as arguments.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
cd "$folder"

# Runs a Python program from stdin. usage: run_python
run_python() { "$folder/venv/bin/python" -B -; }

#!/usr/bin/env bash
# Installs a build of Duet, builds the wheel that links it, installs that into a virtual environment, and
# runs the tests beside this script there, with NumPy, and with torch and JAX where they are. 77 where what
# the wheel needs is missing. DUET_TEST_PYTHON names a Python to use. usage: wheel_test.sh BUILD_DIR CXX_COMPILER
set -euo pipefail

build=$(realpath "$1")
compiler=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)

can_build() {
  "$1" -c '
import os, sysconfig, nanobind, numpy, pip, scikit_build_core, venv
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' >/dev/null 2>&1
}

python=""
for candidate in ${DUET_TEST_PYTHON:+"$DUET_TEST_PYTHON"} "$repository/build/python/venv/bin/python" python3 \
  /usr/bin/python3; do
  if [ -z "$python" ] && can_build "$candidate"; then python=$candidate; fi
done
if [ -z "$python" ]; then
  echo "skipped: no Python has its headers, nanobind, scikit-build-core and NumPy; './duet test' makes one in" \
    "build/python/venv where it can (Debian: apt-get install python3-dev python3-venv), or name one in DUET_TEST_PYTHON"
  exit 77
fi

# Always the same folder, so that a compiler cache knows the files.
scratch=$build/python_test
rm -rf "$scratch"
mkdir -p "$scratch"
trap 'rm -rf "$scratch"' EXIT
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}; fi
cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
# Nothing is fetched: the interpreter has all that building takes.
TMPDIR=$scratch CMAKE_PREFIX_PATH=$scratch/prefix CXX=$compiler "$python" -m pip --disable-pip-version-check wheel --quiet \
  --no-build-isolation --no-deps --no-index --wheel-dir "$scratch/wheels" "$repository"
"$python" -m venv --without-pip "$scratch/venv"
"$python" -m pip --disable-pip-version-check --python "$scratch/venv/bin/python" install --quiet --no-deps --no-index \
  "$scratch"/wheels/duet-*.whl
# NumPy and its likes are the first interpreter's.
"$python" -c 'import site, sysconfig
print("\n".join([sysconfig.get_path("purelib"), *site.getsitepackages()]))' \
  >"$("$scratch/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/others.pth"

cd "$scratch"
DUET_REPOSITORY=$repository DUET_TRAINER=$scratch/prefix/bin/trainer "$scratch/venv/bin/python" -B "$here/run_tests.py"

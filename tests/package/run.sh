#!/usr/bin/env bash
# Installs a build into an empty prefix, then configures, builds and runs the project beside this
# script against it. usage: run.sh BUILD_DIR CXX_COMPILER CXX_FLAGS
set -euo pipefail

build=$1
compiler=$2
flags=${3-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

cmake --install "$build" --prefix "$prefix" >/dev/null
cmake -S "$here" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags"
cmake --build "$scratch/build"
"$scratch/build/consumer"

# No header asks its user for a library behind Duet.
if grep -rE '#include <(nlohmann|yaml-cpp|spdlog)/' "$prefix/include/duet"; then
  echo "these headers must not be installed (cmake/DuetInstall.cmake), or not include that"
  exit 1
fi

# All headers that need no CUDA, themselves or through another, in one program.
cd "$prefix/include/duet"
cuda='<cu[a-z_0-9]+\.h>'
found=0
while [ "$(grep -rlE "$cuda" . | wc -l)" -ne "$found" ]; do
  found=$(grep -rlE "$cuda" . | wc -l)
  cuda="<cu[a-z_0-9]+\\.h>$(grep -rlE "$cuda" . | sed 's|^\./||; s|\.|\\.|g; s|.*|\|"&"|' | tr -d '\n')"
done
grep -rLE "$cuda" . | sed -n 's|^\./\(.*\.h\)$|#include "\1"|p' | sort >"$scratch/headers.cpp"
[ "$(wc -l <"$scratch/headers.cpp")" -gt 10 ] || { echo "too few headers were installed"; exit 1; }
"$compiler" -std=c++20 -DDUET_WITH_CUDA=0 -fsyntax-only -I"$prefix/include/duet" "$scratch/headers.cpp"

# The applications of this build came along and run from there.
for application in "$build"/apps/*; do
  if [ -f "$application" ] && [ -x "$application" ] && [[ $application != *.so ]]; then
    "$prefix/bin/$(basename "$application")" --help >/dev/null
  fi
done

#!/usr/bin/env bash
# Files that the pages tell people to write ("<!-- file: PATH -->") compile as they stand there, and are
# formatted (where clang-format 14 is installed).
# usage: snippets.sh REPOSITORY CXX_COMPILER [CUDA_COMPILER ARCHITECTURE]
set -euo pipefail

cd "$1"
cxx=$2
nvcc=${3-}
architecture=${4-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/repository/blocks.sh
. "$here/blocks.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
blocks file "$scratch/blocks"
for text in "$scratch"/blocks/*.text; do
  path=$(sed -n '2s/^file: *//p' "${text%.text}.note")
  mkdir -p "$scratch/tree/$(dirname "$path")"
  cp "$text" "$scratch/tree/$path"
done

include=(-I "$scratch/tree/framework" -I "$PWD/framework" -I "$scratch/tree/tests" -I "$PWD/tests")
compiled=0
left_out=0
cp .clang-format "$scratch/tree"
cd "$scratch/tree"
if command -v clang-format-14 >/dev/null; then
  find . -type f -not -name '.*' -exec clang-format-14 --dry-run --Werror {} +
fi
while IFS= read -r file; do
  case $file in
    *.cpp) "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Wno-missing-field-initializers \
      -DDUET_WITH_CUDA=0 "${include[@]}" "$file" ;;
    *.cu)
      if [ -z "$nvcc" ]; then
        left_out=$((left_out + 1))
        continue
      fi
      "$nvcc" -std=c++20 -arch="sm_$architecture" -c -o "$scratch/object.o" --extended-lambda \
        --expt-relaxed-constexpr -DDUET_WITH_CUDA=1 "${include[@]}" "$file"
      ;;
    *) continue ;;
  esac
  compiled=$((compiled + 1))
done < <(find . -type f | sort)

echo "$compiled files compiled, $left_out left out (no CUDA)"
[ "$compiled" -ge 3 ]

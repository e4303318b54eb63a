#!/usr/bin/env bash
# The commands of README.md that compile a lesson without CMake do so, and stand for every lesson: what
# another lesson of the row includes is what the row's command links. (Headers that are not there, of lesson
# 16, are no mistake.) The folder of nvcc may be in CUDA_BIN, and cuDNN's file in CUDNN_LIBRARY.
# usage: by_hand.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
export PATH=${CUDA_BIN:-/usr/local/cuda/bin}:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# What -lcudnn looks for is not in every package.
library=${CUDNN_LIBRARY-}
[ -z "$library" ] || ln -s "$library" "$scratch/libcudnn.so"
export LIBRARY_PATH=$scratch:${LIBRARY_PATH-}
mistakes=0
lessons=0
commands=0

# usage: mistake TEXT
mistake() {
  echo "lessons/README.md: $1"
  mistakes=$((mistakes + 1))
}

# The libraries that a source includes, in the order of their names.
libraries_of() {
  sed -n 's/^#include <\(cudnn\|cublasLt\|cublas\|cufft\|curand\)[_a-z0-9]*\.h.*/\1/p' "$1" | sort -u | tr '\n' ' '
}

while IFS='|' read -r _ numbers command _; do
  command=$(sed 's/^ *`//; s/` *$//' <<<"$command")
  source=$(grep -o '[a-z_0-9]*\.cu\(pp\)\?\b\|[a-z_0-9]*\.cpp' <<<"$command" | head -n 1)
  set -- [0-9][0-9]_*/"$source"
  [ -f "$1" ] || { mistake "no lesson has $source"; continue; }
  folder=$(dirname "$1")
  needs=$(libraries_of "$1")
  first=$(grep -o '[0-9][0-9]' <<<"$numbers" | head -n 1)
  last=$(grep -o '[0-9][0-9]' <<<"$numbers" | tail -n 1)
  for other in [0-9][0-9]_*/; do
    number=${other%%_*}
    [[ $number < $first || $number > $last ]] && continue
    lessons=$((lessons + 1))
    file=$(ls "$other"*.c* | grep -v /answer_)
    [ "$(libraries_of "$file")" = "$needs" ] || mistake "lesson $number includes other libraries than $source"
  done
  case $command in *cudnn_frontend*) [ -d ../build/cudnn_frontend/include ] || continue ;; esac
  commands=$((commands + 1))
  (cd "$folder" && eval "${command/-o lesson/-o $scratch/lesson}") || mistake "$command"
done < <(grep '^|[^|]*| `nvcc ' README.md)

[ "$lessons" -eq "$(ls -d [0-9][0-9]_*/ | wc -l)" ] || mistake "the commands are for $lessons lessons, which is not all"
echo "$commands commands for $lessons lessons, $mistakes mistakes"
[ "$commands" -gt 0 ] && [ "$mistakes" -eq 0 ]

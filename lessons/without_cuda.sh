#!/usr/bin/env bash
# In a build without CUDA './duet lesson 04' ends with 3 and says what it needs; an answer that a lesson
# does not have is refused before anything is built. With CUDA (ON), a lesson that lacks only headers of its own
# says where its page is. Works in a copy of the tree, and installs nothing.
# usage: without_cuda.sh REPOSITORY ON|OFF
set -euo pipefail

repository=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tree" "$scratch/bin"
for entry in "$repository"/*; do
  case $(basename "$entry") in
    build | runs | duet) ;;
    *) ln -s "$entry" "$scratch/tree" ;;
  esac
done
cp "$repository/duet" "$scratch/tree"
printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/apt-get"
chmod +x "$scratch/bin/apt-get"
export PATH=$scratch/bin:$PATH

mistakes=0

# usage: check STATUS TEXT ARGUMENT...
check() {
  local expected=$1 text=$2 status=0
  shift 2
  "$scratch/tree/duet" "$@" >"$scratch/log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne "$expected" ] || ! grep -qF -- "$text" "$scratch/log"; then
    echo "./duet $*: exit code $status instead of $expected, or it does not say '$text'"
    sed 's/^/    /' "$scratch/log"
    mistakes=$((mistakes + 1))
  fi
}

check 2 'lesson 04 has no answer 9' lesson 04 --answer 9
check 2 '--answer belongs to lesson' build --answer 1
check 3 'lesson 04 needs nvcc, the CUDA toolkit and cuDNN' lesson 04 --preset cpu
check 3 "Install NVIDIA's CUDA toolkit" lesson 04 --answer 1 --preset cpu
if [ "$2" = ON ] && ! printf '#include <cudnn_frontend.h>' | c++ -x c++ -M - >/dev/null 2>&1; then
  unset CUDNN_FRONTEND_ROOT
  check 3 'how to get it: lessons/16_frontend/README.md' lesson 16 --preset release
fi

echo "$mistakes mistakes"
[ "$mistakes" -eq 0 ]

#!/usr/bin/env bash
# Runs lessons and answers. "gpu": each must end with 0, or with 3 where this GPU is too old for it, and
# what they print is shown; 77 where there is no GPU. "without-gpu": no GPU is visible to them, and each
# must say so and end with 3.
# usage: run.sh gpu|without-gpu PROGRAM...
set -euo pipefail

mode=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ "$mode" = without-gpu ]; then export CUDA_VISIBLE_DEVICES=""; fi

right=0
too_old=0
mistakes=0
failed=()

# usage: fails PROGRAM REASON
fails() {
  echo "== $1: $2"
  failed+=("$1")
  sed 's/^/    /' "$log"
  mistakes=$((mistakes + 1))
}

for program in "$@"; do
  name=$(basename "$program")
  status=0
  timeout 120 "$program" >"$log" 2>&1 </dev/null || status=$?
  if [ "$mode" = without-gpu ]; then
    if [ "$status" -ne 3 ] || ! grep -q '^no GPU (.*Needed: an NVIDIA GPU' "$log"; then
      fails "$name" "exit code $status instead of 3 with a reason"
      continue
    fi
  elif [ "$status" -eq 3 ] && [ $((right + too_old + mistakes)) -eq 0 ] && grep -q '^no GPU' "$log"; then
    echo "there is no GPU"
    exit 77
  elif [ "$status" -eq 3 ] && grep -q '^this GPU cannot: .' "$log"; then
    too_old=$((too_old + 1))
    continue
  elif [ "$status" -ne 0 ]; then
    fails "$name" "exit code $status"
    continue
  elif [[ $name != *_answer_* ]] && grep -q ' 0 errors on purpose' "$log"; then
    fails "$name" "shows no error"
    continue
  fi
  right=$((right + 1))
  if [ "$mode" = gpu ]; then
    echo "== $name"
    cat "$log"
  fi
done

echo "$right programs right, $too_old left out (this GPU is too old), $mistakes mistakes ${failed[*]-}"
[ "$mistakes" -eq 0 ] && [ $((right + too_old)) -gt 0 ]

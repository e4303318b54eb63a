#!/usr/bin/env bash
# Runs lessons and answers. "gpu": each must end with 0, or with 3 where this GPU is too old for it, and
# what they print is shown; 77 where there is no GPU. "without-gpu": no GPU is visible to them, and each
# must say so and end with 3. "write": as "gpu", and what a lesson printed, from the GPU's name on, goes into
# its page, NN_NAME/README.md, between the lines <!-- printed --> and <!-- /printed -->.
# usage: run.sh gpu|write|without-gpu PROGRAM...
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

# usage: write_page FOLDER
write_page() {
  local page
  page=$(dirname "${BASH_SOURCE[0]}")/$1/README.md
  grep -qxF '<!-- printed -->' "$page" && grep -qxF '<!-- /printed -->' "$page" || return 1
  awk -v log_file="$log" '
    /^<!-- \/printed -->$/ { inside = 0 }
    !inside
    /^<!-- printed -->$/ {
      inside = 1
      print "What it printed:\n\n```text"
      while ((getline line < log_file) > 0) if (line ~ /^GPU: / || begun) { begun = 1; print line }
      print "```"
    }' "$page" >"$log.page"
  cat "$log.page" >"$page"
  rm "$log.page"
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
  if [[ $mode = write && $name != *_answer_* ]] && ! write_page "${name#lesson_}"; then
    fails "$name" "its page has no lines <!-- printed --> and <!-- /printed -->"
    continue
  fi
  right=$((right + 1))
  if [ "$mode" != without-gpu ]; then
    echo "== $name"
    cat "$log"
  fi
done

echo "$right programs right, $too_old left out (this GPU is too old), $mistakes mistakes ${failed[*]-}"
[ "$mistakes" -eq 0 ] && [ $((right + too_old)) -gt 0 ]

#!/usr/bin/env bash
# Every lesson has a program of at most 150 lines, a page with all its parts, an exercise with an answer, and a line
# in the index. (What the pages quote is docs/pages.sh's, and what a program printed run.sh's.)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
most_lines=150
mistakes=0
pages=0

# usage: mistake TEXT
mistake() {
  echo "lessons/$1"
  mistakes=$((mistakes + 1))
}

for folder in [0-9][0-9]_*/; do
  folder=${folder%/}
  page=$folder/README.md
  if [ ! -f "$page" ]; then
    mistake "$folder has no README.md"
    continue
  fi
  pages=$((pages + 1))
  sed '/^## /,$d' "$page" | grep -qxF -- "Run it: \`./duet lesson ${folder%%_*}\`." ||
    mistake "$page does not say above its first part how to run the program"
  grep -q '^<!-- code: ' "$page" || mistake "$page quotes nothing of its program"
  for part in '## The memory' '## The code' '## What goes wrong' '## In Duet' '## Exercises'; do
    grep -qxF -- "$part" "$page" || mistake "$page has no part '$part'"
  done
  for part in '<!-- printed -->' '<!-- /printed -->'; do
    grep -qxF -- "$part" "$page" || mistake "$page has no line '$part'"
  done
  for program in "$folder"/*.c*; do
    lines=$(wc -l <"$program")
    [ "$lines" -le "$most_lines" ] || mistake "$program has $lines lines, and $most_lines are allowed: make two lessons of it"
  done
  [ -f "$folder"/answer_1.cpp ] || [ -f "$folder"/answer_1.cu ] || mistake "$folder has no answer_1"
  for answer in "$folder"/answer_*; do
    grep -qF "($(basename "$answer"))" "$page" || mistake "$page has no link to $(basename "$answer")"
  done
  grep -qF "]($folder/README.md)" README.md || mistake "README.md does not list $folder"
done

[ "$(../duet lesson | grep -c '^[0-9][0-9]  [^ ]')" -eq "$pages" ] || mistake "README.md: ./duet lesson does not list all"

echo "$pages pages, $mistakes mistakes"
[ "$pages" -gt 0 ] && [ "$mistakes" -eq 0 ]

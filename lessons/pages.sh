#!/usr/bin/env bash
# The lessons' pages quote the files that are compiled: under "<!-- code: FILE REGION -->" a page holds
# what FILE, beside the page, has between "// region REGION" and "// end REGION". This complains where a
# page holds something else, or with --write puts it right. Also: every lesson has a page with all its
# parts, an exercise with an answer, and a line in the index. usage: pages.sh [--write]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
write=${1-}
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
mistakes=0
pages=0
quotes=0

# usage: mistake TEXT
mistake() {
  echo "lessons/$1"
  mistakes=$((mistakes + 1))
}

# The page as its files would have it.
quoted() {
  awk -v folder="$(dirname "$1")" '
    function fails(text) { print FILENAME ":" NR ": " text > "/dev/stderr"; failed = 1 }
    function quote(file, name, line, inside, found, indent, lines) {
      file = folder "/" file
      while ((getline line < file) > 0) {
        if (line ~ "^ *// end " name "$") inside = 0
        if (inside && line !~ "^ *// (region|end) ") {
          ++lines
          print substr(line, 1, indent) ~ /^ *$/ ? substr(line, indent + 1) : line
        }
        if (line ~ "^ *// region " name "$") { inside = found = 1; indent = index(line, "/") - 1 }
      }
      close(file)
      if (!found || inside || !lines) fails(file " has no region " name)
    }
    /^<!-- code: [^ ]+ [^ ]+ -->$/ {
      print; file = $3; name = $4
      if ((getline) <= 0 || $0 !~ /^```/) fails("no block of code follows the mark")
      print
      quote(file, name)
      while ((getline) > 0 && $0 !~ /^```$/) { }
    }
    { print }
    END { exit failed }' "$1"
}

for folder in [0-9][0-9]_*/; do
  folder=${folder%/}
  page=$folder/README.md
  if [ ! -f "$page" ]; then
    mistake "$folder has no README.md"
    continue
  fi
  pages=$((pages + 1))
  quotes=$((quotes + $(grep -c '^<!-- code: ' "$page" || true)))
  if ! quoted "$page" >"$fresh"; then
    mistakes=$((mistakes + 1))
  elif ! cmp -s "$page" "$fresh"; then
    if [ "$write" = --write ]; then
      cp "$fresh" "$page"
    else
      diff -u "$page" "$fresh" | head -n 20 || true
      mistake "$page does not hold what its files have; bash lessons/pages.sh --write puts it right"
    fi
  fi
  for part in '## The memory' '## The code' '## What goes wrong' '## In Duet' '## Exercises'; do
    grep -qxF -- "$part" "$page" || mistake "$page has no part '$part'"
  done
  [ -f "$folder"/answer_1.cpp ] || [ -f "$folder"/answer_1.cu ] || mistake "$folder has no answer_1"
  for answer in "$folder"/answer_*; do
    grep -qF "($(basename "$answer"))" "$page" || mistake "$page has no link to $(basename "$answer")"
  done
  grep -qF "]($folder/README.md)" README.md || mistake "README.md does not list $folder"
done

[ "$(../duet lesson | grep -c '^[0-9][0-9]  [^ ]')" -eq "$pages" ] || mistake "README.md: ./duet lesson does not list all"

echo "$pages pages, $quotes quotes, $mistakes mistakes"
[ "$pages" -gt 0 ] && [ "$quotes" -gt "$pages" ] && [ "$mistakes" -eq 0 ]

#!/usr/bin/env bash
# Every relative link of every *.md file leads to a file or folder of the repository, and to a heading
# if it names one. usage: links.sh REPOSITORY
set -euo pipefail

cd "$1"

# GitHub's anchors of a page's headings.
anchors() {
  awk '/^```/ { code = !code } !code && /^#+ /' "$1" | sed -E 's/^#+ +//' |
    tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9_ -]//g; s/ /-/g'
}

# "line:target" of each link [text](target) outside code.
links() {
  awk '
    /^[ \t]*```/ { code = !code; next }
    code { next }
    {
      text = $0
      gsub(/`[^`]*`/, "", text)
      while (match(text, /\]\([^)]*\)/)) {
        print NR ":" substr(text, RSTART + 2, RLENGTH - 3)
        text = substr(text, RSTART + RLENGTH)
      }
    }' "$1"
}

files=0
found=0
mistakes=0
while IFS= read -r page; do
  files=$((files + 1))
  while IFS=: read -r line target; do
    target=${target%% *}
    case $target in
      http://* | https://* | mailto:*) continue ;;
    esac
    found=$((found + 1))
    path=${target%%#*}
    anchor=""
    case $target in *#*) anchor=${target#*#} ;; esac
    file=$page
    if [ -n "$path" ]; then file=$(dirname "$page")/$path; fi
    if [ ! -e "$file" ]; then
      echo "$page:$line: $target leads nowhere"
      mistakes=$((mistakes + 1))
    elif [ -n "$anchor" ] && ! anchors "$file" | grep -qxF -- "$anchor"; then
      echo "$page:$line: $file has no heading #$anchor"
      mistakes=$((mistakes + 1))
    fi
  done < <(links "$page")
done < <(find . -name '*.md' -not -path './build*' -not -path './.git/*' -not -path './runs/*' | sort)

echo "$files pages, $found links, $mistakes mistakes"
if [ "$files" -lt 5 ] || [ "$found" -lt 5 ]; then
  echo "too few were found"
  exit 1
fi
[ "$mistakes" -eq 0 ]

# shellcheck shell=bash
# Sourced: blocks MARK DIR writes every fenced block of the repository's *.md files that stands under a
# comment "<!-- MARK... -->" to a file of its own in DIR, beside a file with the page, the line and
# the comment's text.
blocks() {
  mkdir -p "$2"
  find . -name '*.md' -not -path './build*' -not -path './.git/*' -not -path './runs/*' | sort |
    while IFS= read -r page; do
      awk -v mark="$1" -v dir="$2" -v page="${page#./}" -v key="$(tr -c 'A-Za-z0-9\n' '_' <<<"${page#./}")" '
        $0 ~ "^<!-- " mark "[ :].*-->$" || $0 == "<!-- " mark " -->" { note = $0; next }
        note != "" && /^```/ {
          ++count
          file = dir "/" key count
          line = NR
          sub(/^<!-- /, "", note); sub(/ *-->$/, "", note)
          print page ":" line > (file ".note")
          print note > (file ".note")
          printf "" > (file ".text")
          inside = 1; note = ""
          next
        }
        inside && /^```/ { inside = 0; next }
        inside { print > (file ".text") }
        !inside && $0 != "" { note = "" }' "$page"
    done
}

#!/usr/bin/env bash
# What pages quote is what the files say. A page holds, under
#   <!-- code: FILE REGION -->                    what FILE, seen from the page, has between "// region REGION"
#                                                 and "// end REGION"
#   <!-- rung: LAYER ID [PASS] [PROBLEM] -->      the time of an implementation, from the table that
#                                                 'bench --ladder LAYER --write' wrote: of forward and of
#                                                 the first problem that it has a time for, if not said;
#                                                 of "backward" where there are two such passes, both;
#                                                 and what bounds it, where 'bench --ladder LAYER --ncu --write'
#                                                 has counted that
#   <!-- machine: LAYER -->                       where that table was measured
# An ID that no row of a measured table has is a mistake, unless the line "Not measured yet: `ID`, `ID`." of the
# table names it: it came after the table, and the next that bench writes has no such line. So is a rung of a
# course page ("## N. ") without a picture, a line "- **Bytes.**", a line "- **Bound by**" or code from a file, and a
# page without a part "Tried, and did not pay".
# This complains where a page holds something else, or with --write puts it right. usage: pages.sh [--write]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
write=${1-}
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
mistakes=0
pages=0
quotes=0

# The page as its files would have it.
quoted() {
  awk -v folder="$(dirname "$1")" '
    function fails(text) { print FILENAME ":" NR ": " text > "/dev/stderr"; failed = 1 }

    # ---- code ----

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

    # ---- what was measured ----

    # The lines of the table of a layer: table[1..lines]. REQUIRES: `problem` is empty, or one of its bench.yaml.
    function read_table(layer, problem, table, command, file, line, inside, lines, named) {
      command = "grep -lxF -- \"<!-- bench:" layer " -->\" framework/layers/*/README.md"
      if ((command | getline file) <= 0) { fails("no README of framework/layers/ has a table of " layer); return 0 }
      close(command)
      while ((getline line < file) > 0) {
        if (line == "<!-- /bench -->") inside = 0
        if (inside) table[++lines] = line
        if (line == "<!-- bench:" layer " -->") inside = 1
      }
      close(file)
      sub(/README.md$/, "bench.yaml", file)
      while (problem != "" && (getline line < file) > 0) if (index(line, "name: " problem ",")) named = 1
      close(file)
      if (problem != "" && !named) fails(file " has no problem named " problem)
      return lines + 0
    }
    function in_backticks(text) { return match(text, /`[^`]*`/) ? substr(text, RSTART + 1, RLENGTH - 2) : "" }
    function trimmed(text) { gsub(/^ +| +$/, "", text); return text }
    function number(text) { gsub(/,/, "", text); return text + 0 }
    function percent(share) { return sprintf(share >= 10 ? "%.0f%%" : "%.2g%%", share) }

    # What bounds an implementation, from the table between "<!-- ncu:LAYER -->" and "<!-- /ncu -->"; empty if unknown.
    function bound(layer, id, pass, shape, command, file, line, inside, cell, found) {
      command = "grep -lxF -- \"<!-- ncu:" layer " -->\" framework/layers/*/README.md"
      if ((command | getline file) <= 0) { close(command); return "" }
      close(command)
      while ((getline line < file) > 0) {
        if (line == "<!-- /ncu -->") inside = 0
        if (inside && split(line, cell, "|") == 6 && trimmed(cell[2]) == "`" shape "`" && trimmed(cell[3]) == pass &&
            trimmed(cell[4]) == "`" id "`" && trimmed(cell[5]) != "-") found = trimmed(cell[5])
        if (line == "<!-- ncu:" layer " -->") inside = 1
      }
      close(file)
      return found
    }

    function print_bound(layer, id, pass, shape, counted) {
      counted = bound(layer, id, pass, shape)
      if (counted != "") print "> ncu" (pass ~ /_/ ? ", " pass : "") ": bound by " counted "."
    }

    # Whether the table has a time of this pass; `unknown` and `wanted` become the mistake and the problem, where it has not.
    function found_time(layer, id, pass, problem, table, lines, times, i, n, name, shape, column, j, cell, time, floors, base, beside, text, known) {
      lines = read_table(layer, problem, table)
      row = unknown = wanted = ""
      for (i = 1; i <= lines; ++i) {
        if (index(table[i], "| `" id "` |") == 1) known = row = 1
        if (table[i] ~ /^Not measured yet: / && index(table[i], "`" id "`")) known = 1
        if (table[i] ~ /^\|/) n = split(table[i], cell, "|")
        if (table[i] !~ /^\|/ && table[i] ~ /`$/) {
          shape = in_backticks(table[i])
          name = table[i]
          sub(/:? *`[^`]*`$/, "", name)
          if (wanted == "" && (problem == "" || problem == name)) wanted = shape
          time = ""
        } else if (table[i] ~ /^\| \|/) {
          column = 0
          for (j = 3; j < n; ++j) if (trimmed(cell[j]) ~ "^" pass ",") { column = j; base = in_backticks(cell[j]) }
        } else if (column && table[i] ~ /^\| `/ && trimmed(cell[column]) ~ /^[*0-9]/ && ++times && index(table[i], "| `" id "` |") == 1) {
          time = trimmed(cell[column])
          gsub(/\*/, "", time)
          beside = time ~ /\(/ ? time : ""
          sub(/^[^(]*\(/, "", beside)
          sub(/\)$/, "", beside)
          sub(/ .*/, "", time)
        } else if (table[i] ~ /^\| floor \|/ && time != "" && (problem == "" || problem == name)) {
          floors = trimmed(cell[column])
          text = "> `" id "`: **" time " us**, " pass " of " (name == "" ? "" : name ", ") "`" shape "`"
          if (number(floors) > 0) text = text ": " percent(100 * number(floors) / number(time)) " of floor (" floors " us)"
          if (beside != "" && id != base) text = text "; " beside " of the speed of `" base "`"
          print text "."
          print_bound(layer, id, pass, shape)
          return 1
        }
      }
      if (lines > 1 && !times) unknown = "the table of " layer " is not what bench writes"
      if (lines > 1 && !known) unknown = "the table of " layer " has no row " id
      return 0
    }
    function rung(layer, id, pass, problem, passes, count, i, any) {
      if (pass != "backward") {
        if (found_time(layer, id, pass, problem)) return
        if (unknown != "") fails(unknown)
        print "> `" id "`: not measured yet (`bench --ladder " layer " --write`)."
        print_bound(layer, id, pass, wanted)
        return
      }
      count = split("backward backward_data backward_filter", passes, " ")
      for (i = 1; i <= count; ++i) {
        any += found_time(layer, id, passes[i], problem) || (problem != "" && found_time(layer, id, passes[i], ""))
      }
      if (any) return
      if (unknown ~ / has no row /) fails(unknown)
      print "> `" id "`: " (row ? "forward alone." : "backward not measured yet (`bench --ladder " layer " --write`).")
    }
    function machine(layer, table, lines) {
      lines = read_table(layer, "", table)
      if (lines > 1) print "> Measured on: " table[lines]
      else print "> Not measured yet (`bench --ladder " layer " --write`)."
    }

    /^<!-- code: [^ ]+ [^ ]+ -->$/ {
      print; file = $3; name = $4
      if ((getline) <= 0 || $0 !~ /^```/) fails("no block of code follows the mark")
      print
      quote(file, name)
      while ((getline) > 0 && $0 !~ /^```$/) { }
    }
    /^<!-- (rung|machine): .* -->$/ {
      print
      if ($2 == "machine:") {
        machine($3)
      } else {
        first = 5; pass = "forward"; problem = ""
        if ($5 ~ /^(forward|backward|backward_data|backward_filter)$/) { pass = $5; first = 6 }
        for (i = first; i < NF; ++i) problem = problem (i > first ? " " : "") $i
        rung($3, $4, pass, problem)
      }
      while ((more = getline) > 0 && $0 ~ /^>/) { }
      if (more <= 0) exit failed
    }
    { print }
    END { exit failed }' "$1"
}

# What the rungs of a page of the course lack.
check_rungs() {
  awk '
    function lacks(part) { print FILENAME ":" start ": the rung \"" title "\" has no " part; failed = 1 }
    function ends() {
      if (title == "") return
      if (!picture) lacks("picture")
      if (!bytes) lacks("line \"- **Bytes.**\"")
      if (!bound) lacks("line \"- **Bound by**\"")
      if (!code) lacks("code from a file")
      ++rungs
    }
    /^```/ && !inside { inside = 1; if ($0 == "```" && before !~ /^<!-- code: /) picture = 1; before = $0; next }
    /^```/ { inside = 0; before = $0; next }
    !inside && /^## / {
      ends()
      title = /^## [0-9]+\. / ? substr($0, 4) : ""
      start = NR
      picture = bytes = bound = code = 0
    }
    !inside && /^- \*\*Bytes\.\*\* / { bytes = 1 }
    !inside && /^- \*\*Bound by\*\* / { bound = 1 }
    !inside && /^<!-- code: / { code = 1 }
    !inside && /^##+ Tried, and did not pay$/ { tried = 1 }
    { before = $0 }
    END {
      ends()
      if (!rungs) { print FILENAME ": has no rung"; failed = 1 }
      if (!tried) { print FILENAME ": has no part \"Tried, and did not pay\""; failed = 1 }
      exit failed
    }' "$1"
}

for page in docs/course/*.md; do
  if [ "$(basename "$page")" != README.md ] && ! check_rungs "$page"; then mistakes=$((mistakes + 1)); fi
done

while IFS= read -r page; do
  pages=$((pages + 1))
  quotes=$((quotes + $(grep -cE '^<!-- (code|rung|machine): ' "$page")))
  if ! quoted "$page" >"$fresh"; then
    mistakes=$((mistakes + 1))
  elif ! cmp -s "$page" "$fresh"; then
    if [ "$write" = --write ]; then
      cp "$fresh" "$page"
    else
      diff -u "$page" "$fresh" | head -n 20 || true
      echo "$page does not hold what its files have; bash docs/pages.sh --write puts it right"
      mistakes=$((mistakes + 1))
    fi
  fi
done < <(grep -lrE '^<!-- (code|rung|machine): ' --include='*.md' docs lessons | sort)

echo "$pages pages, $quotes quotes, $mistakes mistakes"
[ "$quotes" -gt 50 ] && [ "$mistakes" -eq 0 ]

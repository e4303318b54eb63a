#!/usr/bin/env bash
# What the pages show works: YAML under "<!-- config -->" is a valid configuration, and the commands
# under "<!-- run: EXTRA ARGUMENTS -->" run, with the extra arguments where they name a --config. Under
# "<!-- run gpu: ... -->" they run where there is a GPU.
# The other applications stand beside the trainer. usage: docs.sh REPOSITORY TRAINER BUILT_WITH_CUDA
set -euo pipefail

cd "$1"
repository=$PWD
trainer=$2
cuda=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/repository/blocks.sh
. "$here/blocks.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/tree/build/release/apps"
for folder in configs docs; do ln -s "$repository/$folder" "$scratch/tree/$folder"; done
for application in trainer compare; do
  ln -s "$(dirname "$trainer")/$application" "$scratch/tree/build/release/apps/$application"
done

mistakes=0
configs=0
commands=0
skipped=0

# usage: fails WHERE WHAT LOG
fails() {
  echo "$1: $2"
  sed 's/^/    /' "$3"
  mistakes=$((mistakes + 1))
}

blocks config "$scratch/config"
for text in "$scratch"/config/*.text; do
  where=$(head -n 1 "${text%.text}.note")
  status=0
  "$trainer" --config "$text" --dry-run >"$scratch/log" 2>&1 </dev/null || status=$?
  configs=$((configs + 1))
  if [ "$cuda" != ON ] && grep -q 'this build has no CUDA' "$scratch/log"; then
    skipped=$((skipped + 1))
  elif [ "$status" -ne 0 ]; then
    fails "$where" "not a valid configuration (exit code $status)" "$scratch/log"
  fi
done

gpu=$("$trainer" doctor --json | sed -n 's/.*"gpu":"\([^"]*\)".*/\1/p')
cd "$scratch/tree"
(cd "$repository" && blocks run "$scratch/run")
for text in "$scratch"/run/*.text; do
  note=${text%.text}.note
  where=$(head -n 1 "$note")
  extra=$(sed -n '2s/^[^:]*:* *//p' "$note")
  if [ -z "$gpu" ] && sed -n 2p "$note" | grep -q '^run gpu'; then
    skipped=$((skipped + 1))
    continue
  fi
  while read -r command; do
    case $command in
      "build/release/apps/trainer "* | "build/release/apps/compare "*) ;;
      *)
        echo "$where: cannot be run here: $command" >"$scratch/log"
        fails "$where" "only commands of the applications can be marked" "$scratch/log"
        continue
        ;;
    esac
    case $command in *--config*) command="$command $extra" ;; esac
    commands=$((commands + 1))
    if ! bash -c "$command" >"$scratch/log" 2>&1 </dev/null &&
      ! grep -q 'this build has no chart library' "$scratch/log"; then
      fails "$where" "$command" "$scratch/log"
    fi
  done < <(sed -e ':join' -e '/\\$/{N; s/ *\\\n */ /; b join' -e '}' "$text")
done

echo "$configs configurations, $commands commands, $skipped blocks left out (no CUDA or GPU), $mistakes mistakes"
if [ "$configs" -lt 2 ] || [ "$commands" -lt 3 ]; then
  echo "too few were found"
  exit 1
fi
[ "$mistakes" -eq 0 ]

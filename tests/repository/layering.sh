#!/usr/bin/env bash
# Each folder of framework/ includes only folders below it, and each library only where it belongs.
# usage: layering.sh REPOSITORY
set -euo pipefail

cd "$1/framework"

# Folders on one level do not include each other.
find . -type f \( -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \) | sort |
  sed 's|^\./||' | awk '
  BEGIN {
    split("core device kernels data,optim,layers user_kernels measure net train compare lab", levels, " ")
    for (i in levels) {
      n = split(levels[i], names, ",")
      for (j = 1; j <= n; ++j) level[names[j]] = i + 0
    }
    text = "yaml-cpp|nlohmann|spdlog"
  }
  function mistake(message) { print "framework/" file ":" line ": " message; ++mistakes }
  {
    file = $0; line = 0; ++files
    folder = file; sub("/.*", "", folder)
    if (!(folder in level)) mistake("folder " folder " has no place in the order of folders")
    while ((getline content < file) > 0) {
      ++line
      if (content !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
      included = content
      sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", included); sub(/[">].*/, "", included)
      if (content ~ /"/) {
        ++includes
        below = included; sub("/.*", "", below)
        if (system("test -f \"" included "\"") != 0) {
          mistake("includes \"" included "\", which is not a file of framework/")
        } else if (below != folder && level[below] >= level[folder]) {
          mistake("includes \"" included "\", but " folder "/ does not stand on " below "/")
        }
        continue
      }
      library = included ~ text
      if (library && file ~ /\.h$/ && level[folder] < level["net"]) {
        mistake("a header includes <" included ">; whoever includes it would need that too")
      }
      if (library && file ~ /\.cuh?$/) mistake("a .cu file includes <" included ">; put it in a .cpp file")
      if (folder == "core" && (library || included ~ /^cu(da|dnn|blas|rand)/)) {
        mistake("core/ includes <" included ">")
      }
    }
    close(file)
  }
  END {
    if (files < 20 || includes < 20) { print "found only " files " files"; ++mistakes }
    print files " files, " includes " includes, " mistakes + 0 " mistakes"
    exit mistakes > 0
  }'

#!/usr/bin/env bash
# Numbers become text and text numbers in core/number_text.h, where no locale changes them: the library calls
# nothing else of the C and C++ libraries that asks one. usage: numbers.sh SOURCE_DIRECTORY
set -euo pipefail

cd "$1"
asks='\b(v?snprintf|v?sprintf|strto(d|f|ld)|atof|std::sto(d|f|ld)|sscanf)\(|\bstd::(o|io)?stringstream\b|[^i]ostringstream|std::put_money|\{:[^}]*L\}'
# Texts of libraries, by a buffer in a C handler.
allowed='^framework/(core/number_text\.(h|cpp)|data/format/image_(png|jpeg)\.cpp):'
found=$(git ls-files -co --exclude-standard 'framework/*.cpp' 'framework/*.h' 'framework/*.cu' 'framework/*.cuh' 'python/src/*' |
  xargs grep -nE "$asks" | grep -vE "$allowed|std::istringstream" || true)
if [ -n "$found" ]; then
  echo "these ask the locale; use printed(), read_number() or TextStream (core/number_text.h), or std::to_chars:"
  echo "$found"
  exit 1
fi
echo "no source asks the locale"

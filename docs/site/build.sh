#!/usr/bin/env bash
# Builds the site in OUTPUT/html: the reference of the headers by Doxygen, where that is installed, and all
# pages by Sphinx, whose warnings are errors; then checks every link. Without SPHINX_PYTHON, a Python that
# has requirements.txt, it takes what './duet docs' made or the system's, and ends with 77 if there is none.
# usage: build.sh OUTPUT [SPHINX_PYTHON]
set -euo pipefail

output=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

can_build() { "$1" -c 'import sphinx, furo, myst_parser, breathe' 2>/dev/null; }

python=${2-}
for candidate in build/docs/venv/bin/python python3; do
  if [ -z "$python" ] && can_build "$candidate"; then python=$candidate; fi
done
if [ -z "$python" ]; then
  echo "skipped: no Python with Sphinx, furo, MyST-Parser and breathe; './duet docs' makes one"
  exit 77
fi

mkdir -p "$output"
rm -rf "$output/html" "$output/doxygen"
export DUET_DOXYGEN_XML=""
if command -v doxygen >/dev/null; then
  {
    cat docs/site/Doxyfile
    sed -n 's|^## \(.*\.h\)$|INPUT += framework/\1|p' docs/site/reference/*.md
    printf 'OUTPUT_DIRECTORY = "%s"\n' "$output/doxygen"
  } | doxygen - 2>"$output/doxygen.log"
  DUET_DOXYGEN_XML=$output/doxygen/xml
  # Doxygen's XML has private members whatever it is told.
  perl -0pi -e 's|<sectiondef kind="private-[^"]*">.*?</sectiondef>||gs' "$DUET_DOXYGEN_XML"/*.xml
else
  echo "doxygen is not installed: the site has no reference of the headers"
fi
"$python" -m sphinx -q -W --keep-going -c docs/site -d "$output/cache" . "$output/html"
"$python" docs/site/check.py "$output/html"

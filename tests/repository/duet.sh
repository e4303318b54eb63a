#!/usr/bin/env bash
# What ./duet decides on machines that lack things: a copy of the tree, a PATH with the system's plain tools, and
# stand-ins for the others, which write down how they are called. Nothing is built or installed.
# usage: duet.sh REPOSITORY CMAKE
set -euo pipefail

repository=$1
real_cmake=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/plain"
for tool in awk bash basename cat cmp cp cut dirname env find grep head ls mkdir mktemp mv nproc printf realpath rm sed sh \
  sleep sort tail tee touch tr uname wc xargs; do
  ln -s "$(command -v "$tool")" "$scratch/plain/$tool"
done
mistakes=0
checks=0

# usage: stand_in NAME: its script comes from stdin, and finds what the machine has in $machine.
stand_in() {
  {
    printf '#!%s\nmachine=%q\n' "$(command -v bash)" "$machine"
    printf 'printf "%%s\\n" "%s $*" >>"$machine/calls"\n' "$1"
    cat
  } >"$machine/bin/$1"
  chmod +x "$machine/bin/$1"
}

# A new machine: root, Debian's tools, the network, all headers; no GPU, no nvcc and no data set. Files in $machine/has
# say what there is besides.
new_machine() {
  rm -rf "$scratch/machine"
  machine=$scratch/machine
  tree=$machine/tree
  mkdir -p "$machine/bin" "$machine/has" "$tree"
  for entry in "$repository"/*; do
    case $(basename "$entry") in
      build* | runs | puzzles | duet) ;;
      *) ln -s "$entry" "$tree" ;;
    esac
  done
  cp "$repository/duet" "$tree"
  : >"$machine/calls"
  touch "$machine"/has/{root,network,fashion_package}
  stand_in id <<<'[ -e "$machine/has/root" ] && echo 0 || echo 1000'
  stand_in ninja <<<''
  stand_in python3 <<<'exit 1'
  stand_in nvidia-smi <<<'[ -e "$machine/has/gpu" ] && echo "GPU 0: NVIDIA H100 (UUID: GPU-1)"'
  stand_in c++ <<'SH'
case " $* " in
  *" -E "*)
    while read -r _ header; do
      if [ -e "$machine/has/no_${header//\//_}" ]; then continue; fi
      case $header in "found "*) ;; *) echo "found $header" ;; esac
    done < <(sed -n 's/^#if __has_include(<\(.*\)>)/has \1/p')
    ;;
esac
SH
  stand_in apt-get <<'SH'
packages=()
for word; do case $word in -* | *=* | install | update) ;; *) packages+=("$word") ;; esac; done
known() {
  for package in "${packages[@]}"; do
    if [ "$package" = dataset-fashion-mnist ] && [ ! -e "$machine/has/fashion_package" ]; then return 1; fi
  done
}
case " $* " in
  *" update "*) [ -e "$machine/has/network" ] ;;
  *" --simulate "*) known ;;
  *)
    [ -e "$machine/has/network" ] && known || exit 100
    for package in "${packages[@]}"; do
      case $package in
        dataset-fashion-mnist) touch "$machine/has/fashion_mnist" ;;
        libpng-dev) rm -f "$machine/has/no_png.h" ;;
      esac
    done
    ;;
esac
SH
  {
    printf 'real_cmake=%q\n' "$real_cmake"
    cat <<'SH'
case " $* " in
  *" -P "*) exec "$real_cmake" "$@" ;;
  *" --version "*) echo "cmake version 3.25.1" ;;
  *" --build "*)
    mkdir -p "$2/apps"
    for program in trainer compare bench; do cp "$machine/$program" "$2/apps"; done
    ;;
  *) echo "-- Duet: building the families of $2" ;;
esac
SH
  } | stand_in cmake
  stand_in trainer <<'SH'
has() { [ -e "$machine/has/$1" ]; }
case " $* " in
  *" doctor "*)
    folder=$(has fashion_mnist && echo /data/fashion) || true
    gpu=$(has gpu && has nvcc && echo "NVIDIA H100") || true
    echo "{\"dataset_findings\":{\"fashion_mnist\":\"${folder:-not found: /data/fashion: no such folder}\"}," \
      "\"datasets\":{\"fashion_mnist\":\"$folder\"},\"duet\":\"0.1.0\",\"gpu\":\"$gpu\"}"
    ;;
  *" download "*) has network && has fashion_server && touch "$machine/has/fashion_mnist" ;;
  *" --backend "*)
    case "$*" in *synthetic_images*) data=synthetic_images ;; *) data=fashion_mnist ;; esac
    if [ "$data" = fashion_mnist ] && ! has fashion_mnist; then exit 2; fi
    echo "{\"dataset\":\"$data\",\"epochs\":2,\"images_per_second\":1234.5,\"name\":\"net\",\"seconds\":1.5,\"val_accuracy\":0.875}"
    ;;
esac
SH
  mv "$machine/bin/trainer" "$machine/trainer"
  stand_in compare <<'SH'
while [ $# -gt 0 ]; do
  if [ "$1" = --report ]; then mkdir -p "${2%/*}" && : >"$2"; fi
  shift
done
SH
  mv "$machine/bin/compare" "$machine/compare"
  stand_in bench <<<'exit "$(cat "$machine/has/bench_status" 2>/dev/null || echo 0)"'
  mv "$machine/bin/bench" "$machine/bench"
  # Leaves what $machine/results holds.
  stand_in ctest <<'SH'
folder=$2/test-results
mkdir -p "$folder" "$2/tests"
cp "$machine"/results/* "$folder"
: >"$2/CMakeCache.txt"
if [ -e "$machine/has/gpu_tests" ]; then : >"$2/tests/duet_gpu_tests"; fi
exit "$(cat "$machine/has/ctest_status" 2>/dev/null || echo 0)"
SH
}

# Two programs of which one left its summary, and a script.
new_results() {
  mkdir "$machine/results"
  printf 'passed 40\nfailed 0\nskipped 2 needs a build with CUDA\n' >"$machine/results/cpu_1.summary"
  printf 'passed 2\nfailed 0\nskipped 1 needs a build with CUDA\nskipped 5 needs /dev/full\n' >"$machine/results/cpu_load.summary"
  cat >"$machine/results/ctest.xml" <<'XML'
	<testcase name="cpu_1" classname="cpu_1" time="1" status="run"><system-out>ok</system-out></testcase>
	<testcase name="cpu_load" classname="cpu_load" time="1" status="run"></testcase>
	<testcase name="links" classname="links" time="1" status="run"></testcase>
	<testcase name="python" classname="python" time="0.5" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>skipped: no Python has NumPy (&apos;./duet test&apos; makes one)
</system-out>
	</testcase>
XML
}

wrong() {
  echo "$1: $2"
  sed 's/^/    /' "$machine/output" "$machine/calls"
  mistakes=$((mistakes + 1))
}

# usage: run STATUS WORD...: runs ./duet, which must end with STATUS.
run() {
  local expected=$1 status=0
  shift
  checks=$((checks + 1))
  what="./duet $*"
  (cd "$tree" && env -i HOME="$machine" CUDA_VISIBLE_DEVICES="${visible-}" PATH="$machine/bin:$scratch/plain" \
    "$tree/duet" "$@") >"$machine/output" 2>&1 </dev/null || status=$?
  if [ "$status" -ne "$expected" ]; then wrong "$what" "exit code $status instead of $expected"; fi
}

says() { grep -qF -- "$1" "$machine/output" || wrong "$what" "does not say '$1'"; }
says_not() { ! grep -qF -- "$1" "$machine/output" || wrong "$what" "says '$1'"; }
calls() { grep -qE -- "$1" "$machine/calls" || wrong "$what" "does not call $1"; }
calls_not() { ! grep -qE -- "$1" "$machine/calls" || wrong "$what" "calls $1"; }

# ---- demo ----

new_machine # the data set comes from apt-get
run 0 demo
calls 'apt-get install .*dataset-fashion-mnist'
calls '^cmake --preset cpu'
calls '^trainer .*lenet5_fashion.yaml --backend cpu'
calls_not '^trainer .*synthetic_images'
says 'fashion_mnist, 2 epochs'
says '87.50%'
says 'without a GPU'
says 'report.html (open it in a browser)'
calls '^compare .*--a cpu_blas --b cpu_reference'

new_machine # it is there already
touch "$machine/has/fashion_mnist"
run 0 demo
calls_not '^apt-get install .*dataset-fashion-mnist'
calls_not '^trainer download'
calls_not '^trainer .*synthetic_images'

new_machine # Debian does not have it, its makers do
rm "$machine/has/fashion_package"
touch "$machine/has/fashion_server"
run 0 demo
calls '^trainer download fashion_mnist'
calls_not '^trainer .*synthetic_images'

for lacking in network root; do
  new_machine # it cannot be had
  rm "$machine/has/$lacking"
  run 0 demo
  says 'training on synthetic images instead'
  calls '^trainer .*--set data.dataset=synthetic_images'
  calls '^compare .*--set data.dataset=synthetic_images'
done
calls_not '^apt-get install .*dataset-fashion-mnist'

new_machine # no apt-get
rm "$machine/bin/apt-get"
run 0 demo
says 'training on synthetic images instead'

new_machine
touch "$machine"/has/{gpu,nvcc,fashion_mnist}
visible=0 run 0 demo
calls '^cmake --preset release'
calls '^trainer .*fashion_mnist_cnn.yaml --backend custom'
calls '^trainer .*fashion_mnist_cnn.yaml --backend cudnn'
says 'NVIDIA H100'

new_machine # a GPU, and no nvcc
touch "$machine"/has/{gpu,fashion_mnist}
visible=0 run 0 demo
calls '^cmake --preset release'
says 'there is a GPU, but this build cannot use it'
calls '^trainer .*--backend cpu'

# ---- what is missing ----

new_machine
touch "$machine/has/no_png.h"
run 0 build
calls '^apt-get install .*libpng-dev'
calls '^cmake --build build/release --target all'

new_machine
touch "$machine/has/no_png.h"
rm "$machine/bin/apt-get"
run 1 build
says 'missing: libpng. This system has no apt-get'
calls_not '^cmake --preset'

new_machine
touch "$machine/has/no_png.h"
rm "$machine/has/root"
run 1 build
says 'Run as root: apt-get install --no-install-recommends libpng-dev'

new_machine
touch "$machine/has/no_png.h"
rm "$machine/has/network"
run 1 build
says 'apt-get could not install libpng-dev'

# ---- test ----

new_machine
new_results
run 0 test
says 'CPU tests: 42 passed, 8 skipped'
says 'GPU tests: not built'
says 'Other tests: 1 passed, 1 skipped'
says '5  needs /dev/full'
says '3  needs a build with CUDA'
says "1  python: no Python has NumPy ('./duet test' makes one)"
says '43 passed, 0 failed, 9 skipped'

new_machine # a program that ended before its summary
new_results
rm "$machine/results/cpu_load.summary"
sed -i 's/\(name="cpu_load".*status="\)run/\1fail/' "$machine/results/ctest.xml"
echo 8 >"$machine/has/ctest_status"
run 1 test
says 'CPU tests: 40 passed, 1 failed, 2 skipped'

new_machine # a GPU that no test used
new_results
touch "$machine"/has/{gpu,nvcc,gpu_tests}
printf 'passed 0\nfailed 0\nskipped 7 no GPU\n' >"$machine/results/gpu.summary"
visible=0 run 1 test
says 'there is a GPU, but no GPU test passed'

new_machine # shards side by side, and what runs alone
new_results
touch "$machine"/has/{gpu,nvcc,gpu_tests}
printf 'passed 30\nfailed 0\n' >"$machine/results/gpu_1.summary"
printf 'passed 3\nfailed 0\nskipped 7 no NVML\n' >"$machine/results/gpu_alone.summary"
printf '\t<testcase name="gpu" classname="gpu" time="1" status="run"></testcase>\n' >>"$machine/results/ctest.xml"
visible=0 run 0 test
says 'GPU tests: 33 passed, 7 skipped on NVIDIA H100'

# ---- the others ----

new_machine
run 1 docs
calls '^apt-get install .*python3-venv'

new_machine
run 0 lesson
says '01  '
run 2 lesson 04 --answer 9
says 'lesson 04 has no answer 9'
calls_not '^cmake'

new_machine
echo 4 >"$machine/has/bench_status"
run 4 puzzle softmax
calls '^cmake --build build/release --target bench'
calls '^bench softmax --puzzle puzzles --quiet'
run 2 puzzle
run 2 test --preset nonsense
says 'unknown preset nonsense'
run 2

echo "$checks calls of ./duet, $mistakes mistakes"
[ "$mistakes" -eq 0 ]

#!/usr/bin/env bash
# Runs duet_gpu_tests: first in shards side by side, where NVIDIA's MPS can be started, so that they share the GPU
# without taking turns; then, alone, the tests that would disturb others or be disturbed. Where MPS cannot be
# started, all in one process. Each program leaves a summary (support/test_summary.h) in RESULTS. 77 without a GPU.
# usage: gpu_tests.sh PROGRAM RESULTS
set -euo pipefail

program=$1
results=$2
# Death tests lose the GPU, with MPS for every process that uses it; the others measure time or memory.
alone='*DeathTest.*:AutoOnGpu.*:CeilingsOnGpu.*:ExamineOnGpu.*:PluginsOnGpu.*:ThroughputOnGpu.*:TimingOnGpu.*:UserKernelsOnGpu.*Examination'
skipped=77
most_shards=16
folder=""
failures=0

finish() {
  if [ -n "$folder" ]; then
    echo quit | nvidia-cuda-mps-control >/dev/null 2>&1 || true
    rm -rf "$folder"
  fi
}
trap finish EXIT
trap 'exit 130' INT TERM

# True if a process can use the GPU.
gpu_works() { "$program" --gtest_filter=-'*' >/dev/null 2>&1; }

# Starts a server of MPS for this script alone. Its sockets are in a folder with a short name: their length is limited.
start_mps() {
  command -v nvidia-cuda-mps-control >/dev/null || return 1
  folder=$(mktemp -d /tmp/duet_mps.XXXXXX)
  export CUDA_MPS_PIPE_DIRECTORY=$folder/pipe CUDA_MPS_LOG_DIRECTORY=$folder/log
  mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
  if nvidia-cuda-mps-control -d >"$folder/output" 2>&1 </dev/null && gpu_works; then return 0; fi
  stop_mps
  return 1
}

stop_mps() {
  finish
  folder=""
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

# usage: run NAME FILTER: prints what the program says where it fails.
run() {
  local name=$1 log=$results/$1.log status=0
  DUET_TEST_SUMMARY=$results/$name.summary GTEST_OUTPUT=json:$results/$name.json \
    "$program" --gtest_filter="$2" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ] && [ "$status" -ne "$skipped" ]; then
    echo "== $name: exit code $status (the whole log: $log)"
    if [ ! -f "$results/$name.summary" ]; then
      printf 'passed 0\nfailed 1\n' >"$results/$name.summary"
      tail -n 60 "$log"
    else
      # What each failing test printed.
      awk '/^\[ RUN / { text = "" } { text = text $0 "\n" } /^\[  FAILED  \].*ms\)$/ { printf "%s", text }' "$log"
    fi
  fi
  return "$status"
}

mkdir -p "$results"
if ! gpu_works; then
  status=0
  run gpu '*' || status=$?
  exit "$status"
fi

shards=$(($(nproc) < most_shards ? $(nproc) : most_shards))
if [ "$shards" -gt 1 ] && start_mps; then
  echo "$shards processes share the GPU (MPS)"
  running=()
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} \
      run "gpu_$((shard + 1))" "-$alone" &
    running+=($!)
  done
  for process in "${running[@]}"; do wait "$process" || failures=$((failures + 1)); done
  stop_mps
  run gpu_alone "$alone" || failures=$((failures + 1))
else
  echo "MPS cannot be started: all tests run in one process"
  run gpu '*' || failures=$((failures + 1))
fi
[ "$failures" -eq 0 ]

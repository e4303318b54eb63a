#!/usr/bin/env bash
# Trains a small network with --tensorboard and runs read_events.py, with a Python that has
# TensorBoard, on what it left; 77 where there is none.
# usage: read_events.sh TRAINER
set -euo pipefail

trainer=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for python in "$here/../../build/python/venv/bin/python" python3 /usr/bin/python3; do
  if "$python" -c 'import tensorboard' >/dev/null 2>&1; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cd "$scratch"
    cat >net.yaml <<'YAML'
name: events
backend: cpu
data: {dataset: synthetic_images, batch: 16, size: 8, channels: 3, train_count: 64, validation_count: 32}
train: {epochs: 2, log_every: 2}
optimizer: {type: adam, learning_rate: 0.001}
schedule: {type: exponential, gamma: 0.5}
layers:
  - {name: conv1, type: conv2d, out_channels: 6, kernel: 3}
  - {name: relu1, type: relu}
  - {name: flatten, type: flatten}
  - {name: fc1, type: linear, out_features: 10}
  - {name: loss, type: softmax_cross_entropy}
YAML
    "$trainer" --config net.yaml --quiet --tensorboard --out run
    "$python" -B "$here/read_events.py" run
    cp run/checkpoints/last.safetensors run/checkpoints/two.safetensors
    "$trainer" --config net.yaml --quiet --tensorboard --out run --epochs 5 --resume last
    "$python" -B "$here/read_events.py" run --resumed
    "$trainer" --config net.yaml --quiet --tensorboard --out run --epochs 4 --resume run/checkpoints/two.safetensors
    "$python" -B "$here/read_events.py" run --resumed
    exit
  fi
done
echo "skipped: no Python has TensorBoard ('./duet test' installs it in build/python/venv where it can)"
exit 77

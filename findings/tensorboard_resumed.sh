#!/usr/bin/env bash
# TensorBoard 2.20.0: a training that goes on from an earlier step writes a second event file into its folder, and
# TensorBoard shows the steps between twice, the old values beside the new. An event session_log with status START at the
# step where the training goes on has it drop the old ones from that step on; writers of today's frameworks write none.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh" tensorboard==2.20.0 setuptools==80.9.0
run_python <<'PY'
import os

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def write(folder, number, events):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/events.out.tfevents.100000000{number}.host", "wb") as file:
        writer = RecordWriter(file)
        for i, event in enumerate(events):
            event.wall_time = 1000 * number + i
            writer.write(event.SerializeToString())


def losses(steps, value):
    return [Event(step=s, summary=Summary(value=[Summary.Value(tag="loss", simple_value=value)])) for s in steps]


def shown(folder):
    accumulator = EventAccumulator(folder)
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars("loss")]


version = [Event(file_version="brain.Event:2")]
start = [Event(step=2, session_log=SessionLog(status=SessionLog.START))]
for name, begins in (("without", []), ("with", start)):
    write(name, 1, version + losses(range(4), 1.0))
    write(name, 2, version + begins + losses(range(2, 5), 2.0))
    print(f"{name} START: {shown(name)}")
assert [step for step, _ in shown("without")] == [0, 1, 2, 3, 2, 3, 4]
assert shown("with") == [(0, 1.0), (1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)]
PY

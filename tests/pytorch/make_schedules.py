#!/usr/bin/env python3
"""Writes schedules.json: rates of PyTorch's schedules, each with and without a warm-up.

A case has the keys of `schedule`, the optimizer's rate, how many steps an epoch has, and the rates of the first steps, in
double. One that watches a metric has its values after each epoch (`metrics`), and the rates of the epochs behind them.
"""
import torch
from torch.optim import lr_scheduler

import fixture

LEARNING_RATE, STEPS = 0.1, 40


def make(optimizer, keys, total):
    keys = {key: value for key, value in keys.items() if key != "per"}
    kind = keys.pop("type")
    if kind == "step":
        return lr_scheduler.StepLR(optimizer, **keys)
    if kind == "exponential":
        return lr_scheduler.ExponentialLR(optimizer, **keys)
    if kind == "cosine":
        return lr_scheduler.CosineAnnealingLR(optimizer, total, **keys)
    if kind == "linear":
        return lr_scheduler.LinearLR(optimizer, total_iters=total, **keys)
    if kind == "one_cycle":
        return lr_scheduler.OneCycleLR(
            optimizer, LEARNING_RATE, total_steps=total, cycle_momentum=False, **keys
        )
    return lr_scheduler.ConstantLR(optimizer, factor=1)


def rates(scheduler, optimizer, count, steps_per_call):
    found = []
    for step in range(1, count + 1):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step % steps_per_call == 0 and step < count:
            scheduler.step()
    return found


def case(total=None, warmup=0, steps_per_epoch=1, **keys):
    """`total` counts the warm-up, which leads to the first rate of the schedule."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LEARNING_RATE)
    scheduler = make(optimizer, keys, total - warmup if total else None)
    if warmup:
        first = keys.get("start_factor", 1.0)
        up = lr_scheduler.LinearLR(optimizer, first / (warmup + 1), first, total_iters=warmup)
        scheduler = lr_scheduler.SequentialLR(optimizer, [up, scheduler], [warmup])
    count = min(total or STEPS, STEPS)
    per_call = steps_per_epoch if keys.get("per") == "epoch" else 1
    yaml = dict(keys)
    if total:
        yaml["total_steps"] = total
    if warmup:
        yaml["warmup_steps"] = warmup
    return {
        "schedule": yaml,
        "learning_rate": LEARNING_RATE,
        "steps_per_epoch": steps_per_epoch,
        "rates": rates(scheduler, optimizer, count, per_call),
    }


def plateau(metrics, larger_is_better=False, **keys):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LEARNING_RATE)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, mode="max" if larger_is_better else "min", **keys)
    rates = []
    for value in metrics:
        optimizer.step()
        scheduler.step(value)
        rates.append(optimizer.param_groups[0]["lr"])
    return {
        "schedule": {"type": "reduce_on_plateau", **keys},
        "learning_rate": LEARNING_RATE,
        "larger_is_better": larger_is_better,
        "metrics": metrics,
        "rates": rates,
    }


def main():
    cases = [
        case(type="step", step_size=3, gamma=0.5, per="epoch", steps_per_epoch=4),
        case(type="exponential", gamma=0.8, per="epoch", steps_per_epoch=3),
    ]
    for warmup in (0, 1, 5):
        cases += [
            case(type="constant", warmup=warmup),
            case(type="step", step_size=7, gamma=0.3, per="step", warmup=warmup),
            case(type="exponential", gamma=0.9, per="step", warmup=warmup),
            case(type="cosine", total=37, warmup=warmup),
            case(type="cosine", eta_min=0.01, total=60, warmup=warmup),
            case(type="linear", start_factor=0.25, end_factor=1.0, total=30, warmup=warmup),
            case(type="linear", start_factor=1.0, end_factor=0.0, total=37, warmup=warmup),
            case(type="one_cycle", total=37, warmup=warmup),
            case(
                type="one_cycle",
                anneal_strategy="linear",
                pct_start=0.5,
                div_factor=10.0,
                final_div_factor=100.0,
                total=38,
                warmup=warmup,
            ),
        ]
    falling = [1.0, 0.5, 0.4, 0.41, 0.4, 0.39999, 0.42, 0.3, 0.3, 0.31, 0.3, 0.29998, 0.3, 0.35, 0.3, 0.3, 0.28]
    flat = [float(1 + step % 2) for step in range(40)]
    below_zero = [-1.0, -1.00001, -1.00005, -1.2, -1.1, -1.2, -1.2001, -1.19, -1.3]
    cases += [
        plateau(falling, patience=2, factor=0.5),
        plateau(falling, patience=0, factor=0.3, threshold=0.0),
        plateau(falling, patience=1, cooldown=3, factor=0.5, threshold=0.05, threshold_mode="abs"),
        plateau([-value for value in falling], larger_is_better=True, patience=1, factor=0.5),
        plateau([1 / value for value in falling], larger_is_better=True, patience=1, threshold=0.1),
        plateau(below_zero, patience=0, factor=0.9),
        plateau(flat),
        plateau(flat, patience=3, factor=0.2, min_lr=0.003, cooldown=2),
        plateau(flat, patience=0, factor=0.01),
    ]
    fixture.write(cases)


main()

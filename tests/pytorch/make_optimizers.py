#!/usr/bin/env python3
"""Writes optimizers.json: trajectories of PyTorch's optimizers. Needs torch (the CPU's is enough).

Element i of a parameter starts at sin(1 + i), and its gradient at step t (from 0) is
0.3 * w + sin(1.7 * i + 0.9 * t); i counts through all parameters. Values are of the last step,
in double; Muon's products are in double as well, where PyTorch rounds to bfloat16.
"""
import math

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import fixture

torch.set_default_dtype(torch.float64)
SHAPES = [[5, 3], [5], [3, 5], [2, 2, 2, 2], [3]]
STEPS = 12


class Parameters(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.list = torch.nn.ParameterList()
        first = 0
        for shape in SHAPES:
            count = math.prod(shape)
            values = [math.sin(1 + first + i) for i in range(count)]
            self.list.append(torch.nn.Parameter(torch.tensor(values).reshape(shape)))
            first += count

    def take_gradients(self, step):
        first = 0
        for w in self.list:
            i = torch.arange(first, first + w.numel())
            wave = torch.sin(1.7 * i + 0.9 * step).reshape(w.shape)
            w.grad = 0.3 * w.detach() + wave
            first += w.numel()


def groups(parameters, keys):
    """Parameters that decay, and those that do not."""
    decay_biases = keys.pop("decay_biases", True)
    plain = [w for w in parameters if w.dim() < 2 and not decay_biases]
    decayed = [w for w in parameters if w.dim() >= 2 or decay_biases]
    return [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]


def betas(keys):
    if "beta1" in keys or "beta2" in keys:
        keys["betas"] = (keys.pop("beta1", 0.9), keys.pop("beta2", 0.999))
    if "epsilon" in keys:
        keys["eps"] = keys.pop("epsilon")
    return keys


class Muon:
    """torch.optim.Muon for matrices, a filter of a convolution a row, and AdamW for the rest."""

    def __init__(self, parameters, keys):
        self.filters = [(w, w.detach().reshape(w.shape[0], -1)) for w in parameters if w.dim() >= 2]
        others = [w for w in parameters if w.dim() < 2]
        adamw = {"lr": keys.pop("adamw_learning_rate", 1e-3)}
        adamw["weight_decay"] = keys.get("weight_decay", 0.1)
        for key in ("beta1", "beta2"):
            if key in keys:
                adamw[key] = keys.pop(key)
        if not keys.pop("decay_biases", True):
            adamw["weight_decay"] = 0.0
        self.muon = torch.optim.Muon([matrix for _, matrix in self.filters], **keys)
        self.adamw = torch.optim.AdamW(others, **betas(adamw))

    def step(self):
        for w, matrix in self.filters:
            matrix.grad = w.grad.reshape(matrix.shape)
        kept = torch.bfloat16
        torch.bfloat16 = torch.float64
        self.muon.step()
        torch.bfloat16 = kept
        self.adamw.step()


def optimizer(name, parameters, keys):
    keys = {("lr" if key == "learning_rate" else key): value for key, value in keys.items()}
    if name == "muon":
        return Muon(parameters, keys)
    make = {"sgd": "SGD", "rmsprop": "RMSprop", "adam": "Adam", "adamw": "AdamW"}[name]
    split = groups(parameters, keys)
    return getattr(torch.optim, make)(split, **betas(keys))


def case(name, **keys):
    model = Parameters()
    rest = dict(keys)
    clip_norm, ema = rest.pop("clip_norm", None), rest.pop("ema", None)
    chosen = optimizer(name, list(model.list), rest)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(ema)) if ema else None
    for step in range(STEPS):
        model.take_gradients(step)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        chosen.step()
        if average:
            average.update_parameters(model)
    result = {"optimizer": {"type": name, **keys}, "w": flat(model)}
    if average:
        result["ema"] = flat(average.module)
    return result


def flat(model):
    return [round(v, 9) for w in model.list for v in w.detach().flatten().tolist()]


def main():
    decay = {"weight_decay": 0.1, "decay_biases": False}
    options = {"clip_norm": 1.5, "ema": 0.8, **decay}
    cases = [
        case("sgd", learning_rate=0.05),
        case("sgd", learning_rate=0.05, momentum=0.9, weight_decay=0.1),
        case("sgd", learning_rate=0.05, momentum=0.9, nesterov=True, **options),
        case("rmsprop", learning_rate=0.02, alpha=0.9, weight_decay=0.1),
        case("rmsprop", learning_rate=0.02, momentum=0.5, **options),
        case("adam", learning_rate=0.02, weight_decay=0.1),
        case("adam", learning_rate=0.02, beta1=0.8, beta2=0.95, epsilon=1e-6, **options),
        case("adamw", learning_rate=0.02),
        case("adamw", learning_rate=0.02, beta1=0.8, beta2=0.95, **options),
        case("adam", learning_rate=0.02, clip_norm=100.0),
        case("muon", learning_rate=0.02),
        case("muon", learning_rate=0.02, momentum=0.8, nesterov=False, weight_decay=0.0),
        case("muon", learning_rate=0.02, adjust_lr_fn="match_rms_adamw", weight_decay=0.2,
             adamw_learning_rate=0.01, beta1=0.8, beta2=0.95),
        case("muon", learning_rate=0.02, adamw_learning_rate=0.003, **options),
    ]
    fixture.write(cases, shapes=SHAPES, steps=STEPS)


main()

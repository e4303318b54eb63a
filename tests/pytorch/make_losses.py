#!/usr/bin/env python3
"""Writes losses.json: what PyTorch makes of the losses. Needs torch (the CPU's is enough)."""
import torch
from torch.nn import functional as F

import fixture

torch.manual_seed(7)
ROWS, CLASSES = 7, 5
X = (2 * torch.randn(ROWS, CLASSES)).double()
LABELS = torch.tensor([0, 4, -1, 2, 2, 1, 3])
WEIGHTS = [0.5, 2.0, 1.0, 0.0, 3.0]


def one_hot(labels):
    return F.one_hot(labels, CLASSES).double()


def cross_entropy(**keys):
    if "class_weights" in keys:
        keys["weight"] = torch.tensor(keys.pop("class_weights"), dtype=torch.float64)
    keys["ignore_index"] = keys.pop("ignore_class", -100)
    return lambda x, labels: F.cross_entropy(x, labels, **keys)


def case(layer, keys, loss):
    x = X.clone().requires_grad_()
    counted = LABELS >= 0
    value = loss(x[counted], LABELS[counted])
    value.backward()
    return {"type": layer, "keys": keys, "loss": value.item(), "dx": x.grad.flatten().tolist()}


def positions(keys):
    """The same rows as the positions of one sample, whose classes PyTorch has second."""
    x = X[None].clone().requires_grad_()
    options = {"ignore_index": -1, **keys}
    value = F.cross_entropy(x.movedim(-1, 1), LABELS[None], **options)
    value.backward()
    result = {"type": "softmax_cross_entropy", "keys": keys, "positions": True, "loss": value.item()}
    return {**result, "dx": x.grad.flatten().tolist()}


def top_k_accuracy(k):
    hits = (X.topk(k).indices == LABELS[:, None]).any(1)
    return {"type": "top_k_accuracy", "keys": {"k": k}, "hits": hits[LABELS >= 0].sum().item()}


def main():
    cases = [
        case("softmax_cross_entropy", keys, cross_entropy(**keys))
        for keys in (
            {},
            {"label_smoothing": 0.1},
            {"class_weights": WEIGHTS},
            {"label_smoothing": 0.3, "class_weights": WEIGHTS},
            {"ignore_class": 2},
            {"label_smoothing": 0.3, "class_weights": WEIGHTS, "ignore_class": 4},
        )
    ]
    cases.append(positions({}))
    cases.append(positions({"label_smoothing": 0.1}))
    cases.append(case("mse", {}, lambda x, y: F.mse_loss(x, one_hot(y))))
    cases.append(
        case("bce_with_logits", {}, lambda x, y: F.binary_cross_entropy_with_logits(x, one_hot(y)))
    )
    for keys in ({}, {"p": 2}, {"margin": 0.5}, {"p": 2, "margin": 2.5}):
        cases.append(
            case("multi_margin", keys, lambda x, y, keys=keys: F.multi_margin_loss(x, y, **keys))
        )
    cases += [top_k_accuracy(k) for k in range(1, CLASSES + 1)]
    fixture.write(cases, x=X.flatten().tolist(), labels=LABELS.tolist())


main()

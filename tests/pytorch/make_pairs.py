#!/usr/bin/env python3
"""Writes pairs.json: what PyTorch makes of losses and metrics of two tensors. Needs torch (the CPU's is enough)."""
import torch
from torch.nn import functional as F

import fixture

SHAPE = (4, 2, 5, 6)
ROWS = torch.tensor([0, -1, 2, -1])
COUNT = 4 * 2 * 5 * 6
X, T = ((fixture.hashed(first, COUNT) >> 9).double().reshape(SHAPE) * 2.0**-22 - 1 for first in (0, COUNT))
P = (T + 1) / 2  # from 0 to 1
P[0, 1, :2], P[2, 1, :2] = 0, 1
T[0, 0] = X[0, 0]  # where the gradient of the absolute value is 0


def case(layer, keys, loss, targets=T):
    x = X.clone().requires_grad_()
    counted = ROWS >= 0
    value = loss(x[counted], targets[counted])
    value.backward()
    result = {"type": layer, "keys": keys, "value": value.item(), "dx": x.grad.flatten().tolist()}
    return result if targets is T else {**result, "probabilities": True}


def metric(layer, keys, of_row):
    values = [of_row(X[i], T[i]) for i in range(SHAPE[0]) if ROWS[i] >= 0]
    return {"type": layer, "keys": keys, "value": torch.stack(values).sum().item()}


def charbonnier(eps):
    return lambda x, t: torch.sqrt((x - t) ** 2 + eps**2).mean()


def psnr(data_range, border=0):
    def of_row(x, t):
        inner = (slice(None), slice(border, x.shape[1] - border), slice(border, x.shape[2] - border))
        return 10 * torch.log10(data_range**2 / F.mse_loss(x[inner], t[inner]))

    return of_row


fixture.write(
    [
        case("mse_loss", {}, F.mse_loss),
        case("l1_loss", {}, F.l1_loss),
        case("charbonnier_loss", {}, charbonnier(1e-3)),
        case("charbonnier_loss", {"eps": 0.5}, charbonnier(0.5)),
        case("binary_cross_entropy_loss", {}, F.binary_cross_entropy_with_logits, P),
        metric("mean_absolute_error", {}, F.l1_loss),
        metric("mean_squared_error", {}, F.mse_loss),
        metric("psnr", {"data_range": 2.0}, psnr(2.0)),
        metric("psnr", {"data_range": 255.0, "border": 1}, psnr(255.0, 1)),
        metric("psnr", {"data_range": 1.0, "border": 2}, psnr(1.0, 2)),
    ],
    shape=list(SHAPE),
    rows=ROWS.tolist(),
    x=X.flatten().tolist(),
    targets=T.flatten().tolist(),
    probabilities=P.flatten().tolist(),
)

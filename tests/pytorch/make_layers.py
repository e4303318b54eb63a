#!/usr/bin/env python3
"""Writes layers.json: what PyTorch makes of every layer but the losses, in double. Needs torch (the CPU's is enough).

Element i of a tensor whose counter starts at n is value(n + i), x_scale times it for x; a running variance is
1.5 + value / 2. Counters go through x, parameters and dy, in this order. Values are in the order of N C H W.
"""

import math

import torch
from torch.nn import functional as F

import fixture

torch.set_default_dtype(torch.float64)


def value(first, count):
    """Numbers of [-1, 1) that float32 holds."""
    return (fixture.hashed(first, count) >> 9).double() / 2**22 - 1


class Counter:
    def __init__(self):
        self.next = 0

    def tensor(self, shape):
        count = math.prod(shape)
        self.next += count
        return value(self.next - count, count).reshape(shape)


def case(layer, forward, shapes, parameters=(), x_scale=1, training=True, **keys):
    """`forward(w, *x)` returns y, or a tuple of them; w has the parameters by name, which are (name, shape)."""
    counter = Counter()
    x = [(x_scale * counter.tensor(shape)).requires_grad_() for shape in shapes]
    w = {}
    for name, shape in parameters:
        w[name] = counter.tensor(shape)
        if name == "running_var":
            w[name] = 1.5 + w[name] / 2
        if not name.startswith("running"):
            w[name].requires_grad_()
    y = forward(w, *x)
    y = list(y) if isinstance(y, tuple) else [y]
    dy = [counter.tensor(each.shape) for each in y]
    torch.autograd.backward(y, dy)
    outputs = {f"y[{i}]": each for i, each in enumerate(y)}
    outputs |= {f"dx[{i}]": each.grad for i, each in enumerate(x)}
    for i, (name, each) in enumerate(w.items()):
        if each.grad is not None:
            outputs[f"dw[{i}] {name}"] = each.grad
        elif training:
            outputs[name] = each
    return {
        "type": layer,
        "keys": keys,
        "training": training,
        "scale": x_scale,
        "x": [list(shape) for shape in shapes],
        "outputs": {
            name: [float(f"{v:.11g}") for v in each.detach().flatten().tolist()]
            for name, each in outputs.items()
        },
    }


def activations():
    image, row = [2, 3, 3, 5], [7, 13]
    plain = {"relu": F.relu, "sigmoid": F.sigmoid, "tanh": F.tanh, "silu": F.silu, "gelu": F.gelu}
    for name, function in plain.items():
        yield case(name, lambda w, x, f=function: f(x), [row], x_scale=4)
    yield case("relu", lambda w, x: F.relu(x), [image])
    yield case("leaky_relu", lambda w, x: F.leaky_relu(x, 0.25), [row], slope=0.25)
    yield case("leaky_relu", lambda w, x: F.leaky_relu(x, 0.5), [image], slope=0.5)
    yield case(
        "gelu", lambda w, x: F.gelu(x, approximate="tanh"), [row], x_scale=4, approximate="tanh"
    )
    for shape in ([5, 7], image):
        yield case("softmax", lambda w, x: F.softmax(x, -1), [shape], x_scale=4)
        yield case("softmax_dropout", lambda w, x: F.softmax(x, -1), [shape], x_scale=4, p=0)
    yield case(
        "softmax_dropout",
        lambda w, x: F.dropout(F.softmax(x, -1), 0.5, False),
        [[5, 7]],
        training=False,
    )
    yield case("dropout", lambda w, x: F.dropout(x, 0.5, False), [row], training=False)
    yield case("dropout", lambda w, x: F.dropout(x, 0.0, True), [row], p=0)


def joints():
    image = [2, 3, 3, 5]
    yield case("add", lambda w, *x: sum(x), [image] * 3)
    yield case("add_relu", lambda w, a, b: F.relu(a + b), [image] * 2)
    yield case(
        "add_relu",
        lambda w, a, b: (lambda y: (y, y.clone()))(F.relu(a + b)),
        [[5, 7]] * 2,
        outputs=2,
    )
    yield case("split", lambda w, x: (x.clone(), x.clone(), x.clone()), [image], outputs=3)
    yield case("concat", lambda w, *x: torch.cat(x, 1), [[2, 3, 3, 2], [2, 1, 3, 2], [2, 4, 3, 2]])
    yield case("concat", lambda w, *x: torch.cat(x, 1), [[3, 5], [3, 2]])
    yield case(
        "reorder", lambda w, x: x.contiguous(memory_format=torch.channels_last), [image], to="nhwc"
    )
    for scale, shape in ((2, [2, 12, 3, 2]), (3, [2, 9, 2, 5])):
        yield case("pixel_shuffle", lambda w, x, r=scale: F.pixel_shuffle(x, r), [shape], scale=scale)


def poolings():
    image = [2, 2, 7, 6]
    yield case("max_pool2d", lambda w, x: F.max_pool2d(x, 2), [image], kernel=2)
    yield case(
        "max_pool2d",
        lambda w, x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0)),
        [image],
        kernel=[3, 2],
        stride=[2, 1],
        padding=[1, 0],
    )
    yield case(
        "avg_pool2d", lambda w, x: F.avg_pool2d(x, 3, 2, 1), [image], kernel=3, stride=2, padding=1
    )
    yield case(
        "avg_pool2d",
        lambda w, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        [image],
        kernel=3,
        stride=2,
        padding=1,
        count_include_pad="false",
    )
    yield case("global_avg_pool2d", lambda w, x: F.adaptive_avg_pool2d(x, 1), [image])


def norm(w, x, training, momentum=0.1, eps=1e-5):
    return F.batch_norm(
        x,
        w["running_mean"],
        w["running_var"],
        w.get("weight"),
        w.get("bias"),
        training,
        momentum,
        eps,
    )


def norms():
    def of(channels, affine=True):
        names = (["weight", "bias"] if affine else []) + ["running_mean", "running_var"]
        return [(name, [channels]) for name in names]

    for kind, shape in (("1d", [7, 3]), ("2d", [3, 2, 3, 4])):
        for training in (True, False):
            wide = {"parameters": of(shape[1]), "training": training}
            yield case("batch_norm" + kind, lambda w, x, t=training: norm(w, x, t), [shape], **wide)
            yield case(
                f"batch_norm{kind}_relu",
                lambda w, x, t=training: F.relu(norm(w, x, t)),
                [shape],
                **wide,
            )
    for training in (True, False):
        yield case(
            "batch_norm1d_relu_softmax",
            lambda w, x, t=training: F.softmax(F.relu(norm(w, x, t)), -1),
            [[7, 3]],
            of(3),
            training=training,
        )
    yield case(
        "batch_norm2d",
        lambda w, x: norm(w, x, True, 0.3, 0.01),
        [[3, 2, 3, 4]],
        of(2, False),
        momentum=0.3,
        eps=0.01,
        affine="false",
    )
    for training in (True, False):
        yield case(
            "batch_norm2d_relu_pool",
            lambda w, x, t=training: F.max_pool2d(F.relu(norm(w, x, t)), 2),
            [[2, 3, 5, 4]],
            of(3),
            training=training,
            pool_kernel=2,
        )
    yield case(
        "batch_norm2d_relu_pool",
        lambda w, x: F.max_pool2d(F.relu(norm(w, x, True)), 3, 2, 1),
        [[2, 2, 5, 5]],
        of(2),
        pool_kernel=3,
        pool_stride=2,
        pool_padding=1,
    )
    for axes, shape in ((1, [5, 7]), (3, [2, 2, 3, 4]), (2, [2, 3, 2, 5])):
        tail = shape[-axes:]
        yield case(
            "layer_norm",
            lambda w, x, t=tail: F.layer_norm(x, t, w["weight"], w["bias"]),
            [shape],
            [("weight", tail), ("bias", tail)],
            axes=axes,
        )
    yield case(
        "layer_norm",
        lambda w, x: F.layer_norm(x, [7], eps=0.01),
        [[5, 7]],
        eps=0.01,
        affine="false",
    )


def linears():
    both = [("weight", [3, 11]), ("bias", [3])]
    yield case(
        "linear", lambda w, x: F.linear(x, w["weight"], w["bias"]), [[5, 11]], both, out_features=3
    )
    yield case(
        "linear",
        lambda w, x: F.linear(x, w["weight"]),
        [[5, 11]],
        both[:1],
        out_features=3,
        bias="false",
    )
    yield case(
        "linear_relu",
        lambda w, x: F.relu(F.linear(x, w["weight"], w["bias"])),
        [[5, 11]],
        both,
        out_features=3,
    )


def convolution(keys):
    names = ("stride", "padding", "dilation", "groups")
    return lambda w, x: F.conv2d(
        x, w["weight"], w.get("bias"), **{key: keys[key] for key in names if key in keys}
    )


def convolutions():
    for shape, filters, keys in (
        ([2, 3, 6, 5], [4, 3, 3, 3], {}),
        ([2, 3, 6, 5], [4, 3, 3, 3], {"padding": 1, "bias": "false"}),
        ([1, 2, 7, 7], [3, 2, 3, 2], {"stride": [2, 1], "padding": [1, 2]}),
        ([2, 2, 7, 6], [3, 2, 3, 3], {"dilation": 2, "padding": 2}),
        ([2, 4, 5, 5], [6, 2, 3, 3], {"groups": 2, "padding": 1}),
        ([2, 3, 5, 5], [3, 1, 3, 3], {"groups": 3, "stride": 2, "padding": 1}),
        ([3, 5, 3, 3], [4, 5, 1, 1], {}),
    ):
        parameters = [("weight", filters)] + ([] if "bias" in keys else [("bias", filters[:1])])
        yield case(
            "conv2d",
            convolution(keys),
            [shape],
            parameters,
            out_channels=filters[0],
            kernel=filters[2:],
            **keys,
        )
    for shape, pool, stride, padding in (([2, 2, 8, 6], 2, 2, 0), ([1, 2, 9, 7], 3, 2, 1)):
        conv = convolution({"padding": 1})
        yield case(
            "conv2d_pool_relu",
            lambda w, x, c=conv, p=(pool, stride, padding): F.relu(F.max_pool2d(c(w, x), *p)),
            [shape],
            [("weight", [3, 2, 3, 3]), ("bias", [3])],
            out_channels=3,
            kernel=3,
            padding=1,
            pool_kernel=pool,
            pool_stride=stride,
            pool_padding=padding,
        )


def main():
    groups = (activations, joints, poolings, norms, linears, convolutions)
    fixture.write([case for group in groups for case in group()])


main()

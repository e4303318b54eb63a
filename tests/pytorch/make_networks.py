#!/usr/bin/env python3
"""Writes networks.json: what PyTorch makes of resnet18 and vgg16. Needs torch (the CPU's is enough).

The two have torchvision's names; the logits are of networks with an eighth of the channels, features
and classes. Element i of a tensor whose counter starts at n is made from unit(n + i), and so are the
images; counters go through the tensors in the order of the file.
"""
import math

import torch
from torch import nn

import fixture
from fixture import hashed

NARROWER, IMAGES, SIZE, PATCH = 8, 2, 224, 8
MEAN, STDDEV = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Block(nn.Module):
    def __init__(self, c, k, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c, k, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(k)
        self.conv2 = nn.Conv2d(k, k, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(k)
        self.downsample = nn.Identity()
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(c, k, 1, stride, bias=False), nn.BatchNorm2d(k)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + self.downsample(x)).relu()


class ResNet18(nn.Module):
    def __init__(self, by):
        super().__init__()
        k = 64 // by
        self.conv1 = nn.Conv2d(3, k, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(k)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(k, k, 1), Block(k, k, 1))
        self.layer2 = nn.Sequential(Block(k, 2 * k, 2), Block(2 * k, 2 * k, 1))
        self.layer3 = nn.Sequential(Block(2 * k, 4 * k, 2), Block(4 * k, 4 * k, 1))
        self.layer4 = nn.Sequential(Block(4 * k, 8 * k, 2), Block(8 * k, 8 * k, 1))
        self.fc = nn.Linear(8 * k, 1000 // by)

    def forward(self, x):
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Vgg16(nn.Module):
    def __init__(self, by):
        super().__init__()
        layers, c = [], 3
        for k, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(convolutions):
                layers += [nn.Conv2d(c, k // by, 3, 1, 1), nn.ReLU()]
                c = k // by
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        n = 4096 // by
        self.classifier = nn.Sequential(
            nn.Linear(c * 7 * 7, n), nn.ReLU(), nn.Dropout(),
            nn.Linear(n, n), nn.ReLU(), nn.Dropout(), nn.Linear(n, 1000 // by)
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def unit(first, count):
    return hashed(first, count).double() / 2**32


def values(shape, name, first):
    """Weights as large as He's, variances and factors around 1, all else around 0."""
    u = unit(first, math.prod(shape))
    if len(shape) > 1:
        u = (2 * u - 1) * math.sqrt(6 / math.prod(shape[1:]))
    elif name.endswith(("running_var", "weight")):
        u = 0.5 + u
    else:
        u = 0.4 * u - 0.2
    return u.float().reshape(shape)


def parameters(model):
    return {name: w for name, w in model.state_dict().items() if w.is_floating_point()}


def images():
    """Of squares of one colour; a counter a square."""
    squares = SIZE // PATCH
    bytes_ = hashed(0, IMAGES * 3 * squares**2) >> 24
    bytes_ = bytes_.reshape(IMAGES, 3, squares, squares)
    x = bytes_.repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3) / 255
    mean, stddev = (torch.tensor(v).reshape(1, 3, 1, 1) for v in (MEAN, STDDEV))
    return (x - mean) / stddev


def case(name, make):
    model = make(NARROWER).eval()
    first, narrow = 0, parameters(model)
    for key, w in narrow.items():
        w.copy_(values(w.shape, key, first))
        first += w.numel()
    with torch.no_grad():
        logits = model.double()(images().double())
    with torch.device("meta"):
        full = parameters(make(1))
    return {
        "name": name,
        "parameters": [[key, list(w.shape), list(narrow[key].shape)] for key, w in full.items()],
        "logits": [round(v, 6) for v in logits.flatten().tolist()],
    }


def main():
    fixture.write(
        [case("resnet18", ResNet18), case("vgg16", Vgg16)],
        narrower=NARROWER,
        images=IMAGES,
        size=SIZE,
        patch=PATCH,
        mean=MEAN,
        stddev=STDDEV,
    )


main()

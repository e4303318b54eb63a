"""duet.torch beside torch itself, on the CPU."""

import ast
import concurrent.futures
import copy
import inspect
import os
import pickle
import subprocess
import tempfile
import unittest

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed: pip install torch")

import duet
import duet.torch as dt

# (torch's module, Duet's, shape of the input)
PAIRS = [
    ("conv2d", lambda m, **k: m.Conv2d(3, 4, 3, stride=2, padding=1, **k), (2, 3, 9, 8)),
    ("conv2d_groups", lambda m, **k: m.Conv2d(4, 6, (3, 1), groups=2, bias=False, **k), (2, 4, 7, 7)),
    ("conv2d_same", lambda m, **k: m.Conv2d(3, 4, 4, padding="same", **k), (2, 3, 7, 7)),
    ("conv2d_reflect", lambda m, **k: m.Conv2d(3, 4, 3, padding=1, padding_mode="reflect", **k), (2, 3, 7, 7)),
    ("conv2d_unbatched", lambda m, **k: m.Conv2d(3, 4, 3, **k), (3, 7, 7)),
    ("linear", lambda m, **k: m.Linear(5, 3, **k), (4, 5)),
    ("linear_3d", lambda m, **k: m.Linear(5, 3, bias=False, **k), (2, 4, 5)),
    ("batch_norm2d", lambda m, **k: m.BatchNorm2d(3, **k), (4, 3, 5, 5)),
    ("batch_norm2d_plain", lambda m, **k: m.BatchNorm2d(3, affine=False, momentum=0.3, **k), (4, 3, 5, 5)),
    ("batch_norm1d", lambda m, **k: m.BatchNorm1d(3, **k), (6, 3)),
    ("layer_norm", lambda m, **k: m.LayerNorm((4, 5), **k), (3, 4, 5)),
    ("relu", lambda m, **k: m.ReLU(**k), (3, 4)),
    ("leaky_relu", lambda m, **k: m.LeakyReLU(0.2, **k), (3, 4, 5, 6)),
    ("sigmoid", lambda m, **k: m.Sigmoid(**k), (3, 4, 2, 2, 2)),
    ("tanh", lambda m, **k: m.Tanh(**k), (3, 4)),
    ("silu", lambda m, **k: m.SiLU(**k), (3, 4)),
    ("gelu", lambda m, **k: m.GELU(approximate="tanh", **k), (3, 4)),
    ("softmax", lambda m, **k: m.Softmax(dim=-1, **k), (3, 4)),
    ("softmax_channels", lambda m, **k: m.Softmax(dim=1, **k), (2, 3, 4, 5)),
    ("max_pool2d", lambda m, **k: m.MaxPool2d(3, stride=2, padding=1, **k), (2, 3, 8, 9)),
    ("avg_pool2d", lambda m, **k: m.AvgPool2d(2, count_include_pad=False, padding=1, **k), (2, 3, 8, 8)),
    ("global_avg_pool2d", lambda m, **k: m.AdaptiveAvgPool2d(1, **k), (2, 3, 4, 5)),
    ("pixel_shuffle", lambda m, **k: m.PixelShuffle(2, **k), (2, 8, 3, 4)),
    ("pixel_shuffle_unbatched", lambda m, **k: m.PixelShuffle(3, **k), (9, 2, 4)),
    ("pixel_shuffle_5d", lambda m, **k: m.PixelShuffle(2, **k), (2, 3, 4, 2, 3)),
]
LOSSES = [
    ("cross_entropy", lambda m, **k: m.CrossEntropyLoss(**k)),
    ("smoothed", lambda m, **k: m.CrossEntropyLoss(label_smoothing=0.1, **k)),
    ("weighted", lambda m, **k: m.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5, 1.0]), **k)),
    ("ignoring", lambda m, **k: m.CrossEntropyLoss(ignore_index=2, **k)),
    ("multi_margin", lambda m, **k: m.MultiMarginLoss(p=2, **k)),
]


class NoBackend:
    """torch.nn for the lambdas above."""

    def __getattr__(self, name):
        return getattr(nn, name)


def both(make):
    theirs = make(NoBackend())
    ours = make(dt)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(shape, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return torch.randn(shape, dtype=dtype)


def run(module, x, **kwargs):
    """(y, dx, gradients of the parameters, buffers after)"""
    x = x.clone(memory_format=torch.preserve_format).requires_grad_()
    y = module(x)
    module.zero_grad()
    torch.manual_seed(1)
    y.backward(torch.randn(y.shape).to(y.dtype))
    buffers = [b.clone() for b in module.buffers() if b.is_floating_point()]
    return [y.detach(), x.grad, *(p.grad for p in module.parameters()), *buffers]


class Modules(unittest.TestCase):
    def compare(self, a, b, **kwargs):
        self.assertEqual(len(a), len(b))
        for each, other in zip(a, b):
            torch.testing.assert_close(each, other, **kwargs)

    def test_as_torch_in_training_and_evaluation(self):
        for name, make, shape in PAIRS:
            theirs, ours = both(make)
            x = inputs(shape)
            for training in (True, False):
                with self.subTest(name, training=training):
                    theirs.train(training), ours.train(training)
                    self.compare(run(ours, x), run(theirs, x), rtol=1e-4, atol=1e-5)
                    with torch.no_grad():
                        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
                    self.assertEqual(ours.state_dict().keys(), theirs.state_dict().keys())

    def test_channels_last(self):
        for name, make, shape in PAIRS:
            if len(shape) != 4:
                continue
            with self.subTest(name):
                theirs, ours = both(make)
                theirs.to(memory_format=torch.channels_last), ours.to(memory_format=torch.channels_last)
                x = inputs(shape).to(memory_format=torch.channels_last)
                self.compare(run(ours, x), run(theirs, x), rtol=1e-4, atol=1e-5)
                if name in ("conv2d", "batch_norm2d", "relu", "max_pool2d"):
                    self.assertTrue(ours(x).is_contiguous(memory_format=torch.channels_last))

    def test_strides_that_are_no_layout(self):
        conv, ours = both(PAIRS[0][1])
        x = inputs((2, 3, 9, 16))[..., ::2]
        self.compare(run(ours, x), run(conv, x), rtol=1e-4, atol=1e-5)

    def test_gradcheck_in_double(self):
        for name, make, shape in PAIRS:
            with self.subTest(name):
                module = make(dt).double()
                x = inputs(shape, torch.float64).requires_grad_()
                state = copy.deepcopy(module.state_dict())

                def forward(x, *parameters):
                    module.load_state_dict(state, strict=True)
                    return torch.func.functional_call(module, dict(zip(names, parameters)), (x,))

                names = [n for n, _ in module.named_parameters()]
                parameters = [p.detach().clone().requires_grad_() for p in module.parameters()]
                self.assertTrue(torch.autograd.gradcheck(forward, (x, *parameters)))

    def test_losses(self):
        x, target = inputs((5, 4)), torch.tensor([0, 2, 1, 3, 3])
        for name, make in LOSSES:
            with self.subTest(name):
                a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
                theirs, ours = make(NoBackend())(a, target), make(dt)(b, target)
                torch.testing.assert_close(ours, theirs)
                theirs.backward(), ours.backward()
                torch.testing.assert_close(b.grad, a.grad)
                double = x.double().requires_grad_()
                self.assertTrue(torch.autograd.gradcheck(lambda v: make(dt)(v, target), (double,)))

    def test_loss_of_pixels(self):
        x, target = inputs((2, 4, 3, 3)), torch.randint(0, 4, (2, 3, 3))
        torch.testing.assert_close(dt.CrossEntropyLoss()(x, target), nn.CrossEntropyLoss()(x, target))

    def test_loss_refuses_labels_out_of_range(self):
        with self.assertRaisesRegex(IndexError, "target 4 is out of bounds for 4 classes"):
            dt.CrossEntropyLoss()(inputs((2, 4)), torch.tensor([0, 4]))

    def test_what_duet_has_not_is_refused(self):
        for make, message in [
            (lambda: dt.MaxPool2d(2, ceil_mode=True), "ceil_mode"),
            (lambda: dt.MaxPool2d(2, dilation=2), "dilation"),
            (lambda: dt.BatchNorm2d(3, track_running_stats=False), "track_running_stats"),
            (lambda: dt.BatchNorm2d(3, momentum=None), "momentum"),
            (lambda: dt.AdaptiveAvgPool2d(2), "output_size"),
            (lambda: dt.CrossEntropyLoss(reduction="sum"), "reduction"),
            (lambda: dt.Conv2d(3, 4, 3)(inputs((2, 3, 9, 9)).half()), "float16"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(duet.UnsupportedError, message):
                make()
        with self.assertRaisesRegex(duet.Error, "custom_winograd"):
            dt.Conv2d(3, 4, 3, backend="custom_winograd")(inputs((2, 3, 9, 9)))
        for make, message in [
            (lambda: dt.Conv2d(3, 4, 3, backend="cpu_bals")(inputs((2, 3, 9, 9))), "cpu_blas"),
            (lambda: dt.Conv2d(3, 4, 3)(inputs((2, 5, 9, 9))), "weight"),
            (lambda: dt.PixelShuffle(3)(inputs((2, 8, 5, 5))), "multiples of 9"),
            (lambda: dt.PixelShuffle(3)(inputs((9, 5))), "takes images"),
            (lambda: dt.Conv2d(3, 4, 3)(inputs((2, 3, 9, 9), torch.float64)), "float64"),
            (lambda: dt.Linear(3, 4, math="tf33"), "tf33"),
            (lambda: dt.BatchNorm1d(3)(inputs((1, 3))), "batch_norm1d"),
            (lambda: dt.Linear(3, 4)(inputs((0, 3))), "no elements"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(duet.ConfigError, message):
                make()

    def test_attributes_count_as_they_are_when_called(self):
        def same(made, change, shape, train=False):
            torch.manual_seed(0)
            theirs = made(nn)
            ours = made(dt)
            ours.load_state_dict(theirs.state_dict())
            x = inputs(shape)
            for module in (theirs, ours):
                module.train(train)
                with torch.no_grad():
                    module(x), module(x)  # a call before is not remembered
                change(module)
            with torch.no_grad():
                torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
            for a, b in zip(ours.buffers(), theirs.buffers()):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

        def to(**attributes):
            return lambda module: [setattr(module, name, value) for name, value in attributes.items()]

        image, conv = (4, 8, 9, 9), lambda m: m.Conv2d(8, 4, 3)
        for made, change, shape in [
            (conv, to(stride=(2, 2)), image),
            (conv, to(padding=(1, 1)), image),
            (conv, to(padding="same", dilation=(2, 2)), image),
            (lambda m: m.Conv2d(8, 4, 3, padding="same"), to(dilation=(3, 3)), image),
            (lambda m: m.Conv2d(8, 4, 3, padding=1), to(padding_mode="circular"), image),
            (lambda m: m.Conv2d(8, 8, 3), lambda m: (setattr(m, "groups", 2),
                                                     setattr(m, "weight", nn.Parameter(m.weight[:, :4]))), image),
            (conv, to(bias=None), image),
            (conv, to(weight=nn.Parameter(torch.ones(4, 8, 1, 1))), image),
            (conv, to(out_channels=7, kernel_size=(5, 5)), image),  # which torch does not read either
            (lambda m: m.Linear(5, 3), to(bias=None), (4, 5)),
            (lambda m: m.Linear(5, 3), to(weight=nn.Parameter(torch.ones(2, 5)), bias=None), (4, 5)),
            (lambda m: m.BatchNorm2d(8), to(eps=0.1), image),
            (lambda m: m.BatchNorm2d(8), to(weight=None, bias=None), image),
            (lambda m: m.BatchNorm1d(8), to(eps=0.1), (4, 8)),
            (lambda m: m.LayerNorm((9, 9)), to(eps=0.1), image),
            (lambda m: m.LayerNorm((9, 9)), to(weight=None, bias=None), image),
            (lambda m: m.LeakyReLU(), to(negative_slope=0.5), image),
            (lambda m: m.GELU(), to(approximate="tanh"), image),
            (lambda m: m.Softmax(-1), to(dim=1), image),
            (lambda m: m.MaxPool2d(2), to(kernel_size=3), image),
            (lambda m: m.MaxPool2d(2), to(stride=1, padding=1), image),
            (lambda m: m.MaxPool2d(2), to(kernel_size=3, stride=None), image),
            (lambda m: m.AvgPool2d(2, padding=1), to(count_include_pad=False), image),
            (lambda m: m.PixelShuffle(1), to(upscale_factor=2), image),
        ]:
            with self.subTest(made(nn)):
                same(made, change, shape)
        same(lambda m: m.BatchNorm2d(8), to(momentum=0.5), image, train=True)
        x, target = inputs((4, 3)), torch.tensor([0, 1, 2, 1])
        for made, change in [
            (lambda m: m.CrossEntropyLoss(), to(label_smoothing=0.2)),
            (lambda m: m.CrossEntropyLoss(weight=torch.ones(3)), to(weight=torch.tensor([1.0, 2.0, 5.0]))),
            (lambda m: m.CrossEntropyLoss(), to(ignore_index=1)),
            (lambda m: m.MultiMarginLoss(), to(p=2, margin=0.5)),
        ]:
            theirs, ours = made(nn), made(dt)
            ours(x, target), change(ours), change(theirs)
            torch.testing.assert_close(ours(x, target), theirs(x, target))

    def test_attributes_that_duet_has_not_are_refused_when_called(self):
        for module, change, shape in [
            (dt.MaxPool2d(2), dict(ceil_mode=True), (2, 3, 9, 9)),
            (dt.MaxPool2d(2), dict(dilation=2), (2, 3, 9, 9)),
            (dt.AvgPool2d(2), dict(divisor_override=3), (2, 3, 9, 9)),
            (dt.AdaptiveAvgPool2d(1), dict(output_size=2), (2, 3, 9, 9)),
            (dt.BatchNorm2d(3), dict(momentum=None), (2, 3, 9, 9)),
            (dt.BatchNorm2d(3), dict(track_running_stats=False), (2, 3, 9, 9)),
            (dt.BatchNorm2d(3), dict(bias=None), (2, 3, 9, 9)),
        ]:
            before = {name: getattr(module, name) for name in change}
            with self.subTest(f"{module} {change}"):
                for name, value in change.items():
                    setattr(module, name, value)
                with self.assertRaises(duet.UnsupportedError):
                    module(inputs(shape))
                for name, value in before.items():
                    setattr(module, name, value)
                module(inputs(shape))
        with self.assertRaises(TypeError):
            dt.MaxPool2d([2, 2]).kernel_size[0] = 3  # which nobody would see
        linear = dt.Linear(3, 4)
        linear.backend = "cpu_reference"
        self.assertEqual(linear._spec.backend, "cpu_reference")

    def test_a_lazy_negation_is_made_first(self):
        """torch marks such memory, and leaves the values as they were."""
        negated = torch._neg_view
        for name, make, shape in PAIRS:
            with self.subTest(name):
                theirs, ours = both(make)
                x = inputs(shape)
                with torch.no_grad():
                    for _ in range(3):  # the third is made without the interpreter
                        torch.testing.assert_close(ours(negated(x)), theirs(-x), rtol=1e-4, atol=1e-5)
                        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
                x.requires_grad_()
                y, expected = ours(x), theirs(x)
                dy = inputs(y.shape, seed=1)
                torch.testing.assert_close(torch.autograd.grad(y, x, negated(dy))[0],
                                           torch.autograd.grad(expected, x, -dy)[0], rtol=1e-4, atol=1e-5)
        theirs, ours = both(lambda m: m.Linear(5, 3))
        x, weight = inputs((4, 5)), inputs((3, 5), seed=2)
        with torch.no_grad():
            for module, w in ((theirs, nn.Parameter(-weight)), (ours, nn.Parameter(negated(weight)))):
                module.weight = w
            for _ in range(3):
                torch.testing.assert_close(ours(x), theirs(x))
        lazy = torch.complex(inputs((2, 3)), inputs((2, 3), seed=1)).conj().imag[:, :1]
        self.assertTrue(lazy.is_neg())
        torch.testing.assert_close(dt.ReLU()(lazy), nn.ReLU()(lazy))
        with self.assertRaisesRegex(duet.ConfigError, r"resolve_neg\(\)"):
            duet.ops.relu(negated(inputs((2, 3))))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.safetensors")
            dt.save_state_dict({"a": negated(torch.ones(3))}, path)
            self.assertEqual(dt.load_state_dict(path)["a"].tolist(), [-1, -1, -1])

    def test_statistics_that_are_copied_are_updated(self):
        theirs, ours = both(lambda m: m.BatchNorm2d(3))
        for module in (theirs, ours):
            module.running_mean = torch.zeros(6)[::2]
            module.train()(inputs((2, 3, 4, 4)))
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)

    def test_second_derivative_is_refused(self):
        x = inputs((2, 3)).requires_grad_()
        g, = torch.autograd.grad(dt.Tanh()(x).sum(), x, create_graph=True)
        with self.assertRaises(RuntimeError):
            g.sum().backward()

    def test_inplace_behind_a_layer(self):
        model = nn.Sequential(dt.Conv2d(3, 4, 3), nn.ReLU(inplace=True), dt.BatchNorm2d(4), nn.ReLU(inplace=True))
        run(model, inputs((2, 3, 6, 6)))

    def test_repr_names_backend_and_version(self):
        self.assertRegex(repr(dt.Linear(3, 4, backend="cpu_blas")), r"backend='cpu_blas'.*duet='\d")

    def test_signatures_are_torchs_with_backend_and_math(self):
        for name in dt.__all__:
            made = getattr(dt, name)
            if not (isinstance(made, type) and issubclass(made, nn.Module)):
                continue
            of_torch = list(inspect.signature(getattr(nn, name)).parameters)
            wanted = [each for each in of_torch if each not in ("args", "kwargs")] + ["backend", "math"]
            self.assertEqual(list(inspect.signature(made).parameters), wanted, name)

        # Of the stub, but for what only some versions of torch have.
        with open(os.path.join(os.path.dirname(dt.__file__), "modules.pyi")) as file:
            stub = {node.name: node for node in ast.parse(file.read()).body if isinstance(node, ast.ClassDef)}
        self.assertEqual({name for name in stub if name != "_Backed"}, {made.__name__ for made in dt.MODULES.values()})
        for made in dt.MODULES.values():
            of_stub = next(node.args for node in stub[made.__name__].body if node.name == "__init__")
            named = [each.arg for each in [*of_stub.args[1:], *of_stub.kwonlyargs]]
            here = list(inspect.signature(made).parameters)
            self.assertEqual([each for each in here if each in named], named, made.__name__)
            self.assertLessEqual(set(here) - set(named), {"bias"}, made.__name__)

        class Mine(dt.Linear):
            def __init__(self, size):
                super().__init__(size, size)

        self.assertEqual(list(inspect.signature(Mine).parameters), ["size"])
        self.assertEqual(Mine(3)(torch.randn(2, 3)).shape, (2, 3))

    def test_pickle(self):
        module = dt.Conv2d(3, 4, 3, backend="cpu_reference")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.pt")
            torch.save(module, path)
            again = torch.load(path, weights_only=False)
        x = inputs((2, 3, 6, 6))
        torch.testing.assert_close(again(x), module(x), rtol=0, atol=0)

    def test_bfloat16_and_autocast(self):
        for name, make, shape in PAIRS[:8]:
            with self.subTest(name):
                theirs, ours = both(make)
                x = inputs(shape)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    y, expected = ours(x), theirs(x)
                self.assertEqual(y.dtype, expected.dtype)
                torch.testing.assert_close(y, expected, rtol=2e-2, atol=2e-2)
                if "batch_norm" in name:
                    continue  # torch keeps statistics in bfloat16 there
                self.compare([t.float() for t in run(ours.bfloat16(), x.bfloat16())],
                             [t.float() for t in run(theirs.bfloat16(), x.bfloat16())], rtol=5e-2, atol=5e-2)
        with torch.autocast("cpu", dtype=torch.float16):
            with self.assertRaisesRegex(duet.UnsupportedError, "bfloat16"):
                dt.Linear(3, 4)(inputs((2, 3)))


class RepeatedCalls(unittest.TestCase):
    """From the second one on the commonest calls do without most of Python (_duet.TorchCalls)."""

    def setUp(self):
        self.theirs, self.ours = both(lambda m: m.Linear(5, 3))

    def check(self, x, **to):
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(self.ours(x), self.theirs(x))

    def test_are_made_without_the_interpreter(self):
        x = inputs((4, 5))
        self.check(x)
        made = self.ours._spec.calls(x, (self.ours.weight, self.ours.bias), True)
        self.assertIsNone(made)  # a gradient is wanted
        with torch.no_grad():
            made, = self.ours._spec.calls(x, (self.ours.weight, self.ours.bias), True)
            torch.testing.assert_close(made, self.theirs(x))
            duet.torch.forget()
            self.assertIsNone(self.ours._spec.calls(x, (self.ours.weight, self.ours.bias), True))

    def test_of_every_module(self):
        for name, make, shape in PAIRS:
            with self.subTest(name), torch.no_grad():
                theirs, ours = both(make)
                for training in (True, False):
                    theirs.train(training), ours.train(training)
                    for seed in range(4):
                        x = inputs(shape, seed=seed)
                        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)

    def test_with_what_changes_between_them(self):
        for x in (inputs((4, 5)), inputs((7, 5)), inputs((5, 4)).T, inputs((4, 5)), inputs((2, 4, 5))):
            self.check(x)
        for module in (self.ours, self.theirs):
            module.double()
        self.check(inputs((4, 5), torch.float64))
        with torch.no_grad():
            for module in (self.ours, self.theirs):
                module.weight.mul_(2)
        self.check(inputs((4, 5), torch.float64))
        self.ours.bias = self.theirs.bias = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.check(inputs((4, 5), torch.float64))

    def test_see_gradients_and_autocast(self):
        x = inputs((4, 5))
        self.check(x)
        self.assertTrue(self.ours(x).requires_grad)
        self.ours.requires_grad_(False)
        self.assertFalse(self.ours(x).requires_grad)
        self.assertTrue(self.ours(x.clone().requires_grad_()).requires_grad)
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            self.assertEqual(self.ours(x).dtype, torch.bfloat16)

    def test_hold_parameters_to_their_shapes(self):
        x = inputs((4, 5))
        self.check(x)
        self.ours.weight.data = self.ours.weight.data[:2]
        with self.assertRaisesRegex(duet.ConfigError, "weight is"), torch.no_grad():
            self.ours(x)

    def test_find_parametrized_weights(self):
        x = inputs((4, 5))
        for module in (self.ours, self.theirs):
            nn.utils.parametrizations.weight_norm(module)
        self.check(x)

    def test_copies_and_threads(self):
        x = inputs((4, 5))
        self.check(x)
        other = pickle.loads(pickle.dumps(copy.deepcopy(self.ours)))
        with torch.no_grad():
            expected = self.theirs(x)
            torch.testing.assert_close(other(x), expected)

            def run(_):
                for _ in range(200):
                    torch.testing.assert_close(other(x), expected)

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(run, range(4)))


def small_network(m=nn):
    return nn.Sequential(m.Conv2d(1, 4, 3, padding=1), m.BatchNorm2d(4), m.LeakyReLU(0.1), m.MaxPool2d(2),
                         nn.Flatten(), m.Linear(64, 10), m.Softmax(dim=-1))


class Operators(unittest.TestCase):
    def arguments(self, module, x):
        spec = module._spec[:4]
        w = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()]
        return ([x], w, *spec[1:], False, True, True)

    def test_opcheck(self):
        for name, make, shape in PAIRS:
            if name not in ("conv2d", "linear", "batch_norm2d", "relu", "softmax", "max_pool2d"):
                continue
            with self.subTest(name):
                module = make(dt)
                x = inputs(shape).requires_grad_()
                op = getattr(torch.ops.duet, module._spec[0]).default
                torch.library.opcheck(op, self.arguments(module, x))

    def test_a_block(self):
        """Whose backward_data goes on with what its backward_filter left."""
        x, w, b = inputs((2, 3, 8, 8)), inputs((4, 3, 3, 3), seed=1), inputs((4,), seed=2)
        expected = x.clone().requires_grad_()
        y = torch.relu(nn.functional.max_pool2d(nn.functional.conv2d(expected, w, b), 2))
        y.sum().backward()
        mine = x.clone().requires_grad_()
        keys = '{"out_channels": 4, "kernel": 3, "pool_kernel": 2}'
        made = torch.ops.duet.conv2d_pool_relu([mine], [w, b], keys, "cpu", "fp32", False, True, True)
        torch.testing.assert_close(made[0], y, rtol=1e-4, atol=1e-5)
        made[0].sum().backward()
        torch.testing.assert_close(mine.grad, expected.grad, rtol=1e-4, atol=1e-5)

    def test_fake_tensors(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            y = dt.Conv2d(3, 4, 3)(torch.randn(2, 3, 9, 9))
        self.assertEqual(tuple(y.shape), (2, 4, 7, 7))

    def test_torch_func_is_refused(self):
        module = dt.Linear(3, 2)
        f = lambda x: module(x).square().sum()
        with self.assertRaisesRegex(duet.UnsupportedError, "torch.func"):
            torch.func.grad(f)(inputs((4, 3)))

    def test_compiled_as_eager(self):
        loss = dt.CrossEntropyLoss()
        results = []
        for compiled in (False, True):
            torch.manual_seed(0)
            model = small_network(dt)
            x, target = inputs((2, 1, 8, 8)).requires_grad_(), torch.tensor([1, 2])
            step = lambda x: loss(model(x), target)
            if compiled:
                step = torch.compile(step, fullgraph=True, backend=os.environ.get("DUET_TEST_COMPILER", "aot_eager"))
            value = step(x)
            value.backward()
            results.append([value.detach(), x.grad, *(p.grad for p in model.parameters()), *model.buffers()])
        for eager, compiled in zip(*results):
            torch.testing.assert_close(compiled, eager)


class Functions(unittest.TestCase):
    """duet.ops on torch's tensors."""

    def test_arrays_of_another_place_are_refused(self):
        x, labels = torch.randn(3, 4), torch.tensor([0, 1, 2])
        meta = lambda tensor: tensor.to("meta")
        _, backward = duet.ops.relu(x, grad=True)
        for call, error, message in [
            (lambda: duet.ops.cross_entropy(x, labels), duet.UnsupportedError, r"target.int\(\) for labels"),
            (lambda: duet.ops.cross_entropy(x, meta(labels.int())), duet.UnsupportedError, "not on 'meta'"),
            (lambda: duet.ops.add(x, meta(x)), duet.UnsupportedError, "not on 'meta'"),
            (lambda: duet.ops.linear(x, meta(x)), duet.UnsupportedError, "not on 'meta'"),
            (lambda: duet.ops.relu(x.to_sparse()), duet.UnsupportedError, r"torch.sparse_coo.*x.to_dense\(\)"),
            (lambda: backward(meta(x)), duet.UnsupportedError, "not on 'meta'"),
            (lambda: backward(x.numpy()), TypeError, "dy is an array of numpy, and the input was one of torch"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()
        torch.testing.assert_close(backward(torch.ones_like(x))[0], (x > 0).float())


class Replace(unittest.TestCase):
    def test_by_family_class_and_name(self):
        model = small_network()
        x = inputs((2, 1, 8, 8))
        expected = run(copy.deepcopy(model), x)
        parameters = list(model.parameters())
        self.assertIs(dt.replace(model, {nn.Conv2d: "cpu_blas", nn.Linear: {"forward": "cpu_reference"}, "2": None}),
                      model)
        self.assertEqual([type(m).__module__.partition(".")[0] for m in model],
                         ["duet", "torch", "duet", "torch", "torch", "duet", "torch"])
        self.assertEqual((model[0].backend, model[5].backend), ("cpu_blas", {"forward": "cpu_reference"}))
        for before, after in zip(parameters, model.parameters()):
            self.assertIs(before, after)
        for a, b in zip(run(model, x), expected):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        dt.replace(model, "cpu")
        self.assertEqual([type(m).__module__.partition(".")[0] for m in model].count("duet"), 6)

    def test_one_module_in_two_places_and_the_root(self):
        shared = nn.Linear(4, 4)
        model = dt.replace(nn.Sequential(shared, nn.ReLU(), shared), "cpu")
        self.assertIs(model[0], model[2])
        self.assertIsInstance(dt.replace(shared, "cpu"), dt.Linear)

    def test_hooks_and_mode_stay(self):
        model = nn.Sequential(nn.Linear(4, 4)).eval()
        calls = []
        model[0].register_forward_hook(lambda *_: calls.append(1))
        dt.replace(model, "cpu")(inputs((1, 4)))
        self.assertEqual(calls, [1])
        self.assertFalse(model[0].training)

    def test_mistakes(self):
        model = nn.Sequential(nn.MaxPool2d(2, ceil_mode=True), nn.Linear(2, 2))
        with self.assertRaisesRegex(duet.UnsupportedError, "0: MaxPool2d: ceil_mode"):
            dt.replace(model, "cpu")
        self.assertIs(type(model[1]), nn.Linear)
        dt.replace(model, "cpu", unsupported="keep")
        self.assertIsInstance(model[1], dt.Linear)
        with self.assertRaisesRegex(duet.ConfigError, "no module of Conv2d"):
            dt.replace(model, {nn.Conv2d: "cpu"})
        with self.assertRaisesRegex(duet.ConfigError, "no module of 'head'"):
            dt.replace(model, {"head": "cpu"})
        with self.assertRaisesRegex(duet.ConfigError, "Dropout"):
            dt.replace(model, {nn.Dropout: "cpu"})


class Checkpoints(unittest.TestCase):
    def test_there_and_back(self):
        model = small_network(dt)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.safetensors")
            dt.save_state_dict(model.state_dict(), path, {"note": "x"})
            state = dt.load_state_dict(path)
            self.assertEqual(dt.load_metadata(path), {"note": "x"})
            small_network().load_state_dict(state)
            for name, tensor in state.items():
                torch.testing.assert_close(tensor, model.state_dict()[name], rtol=0, atol=0)
            with open(path, "r+b") as file:
                file.truncate(100)
            with self.assertRaises(duet.DataError):
                dt.load_state_dict(path)

    @unittest.skipUnless("DUET_TRAINER" in os.environ, "DUET_TRAINER names no trainer")
    def test_from_and_to_the_trainer(self):
        with tempfile.TemporaryDirectory() as folder:
            def train(out, *options):
                command = [os.environ["DUET_TRAINER"], "--config", "net.yaml", "--quiet", "--out", out, *options]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)

            with open(os.path.join(folder, "net.yaml"), "w") as file:
                file.write(TRAINED)
            train("first")
            model = nn.ModuleDict({"conv1": dt.Conv2d(3, 6, 3), "norm1": dt.BatchNorm2d(6), "fc1": dt.Linear(216, 10)})
            path = os.path.join(folder, "first", "checkpoints", "last.safetensors")
            state = dt.load_state_dict(path)
            model.load_state_dict(state)
            self.assertIn("conv1", dt.load_metadata(path)["config"])
            dt.save_state_dict(model.state_dict(), os.path.join(folder, "mine.safetensors"))
            train("second", "--init-from", "mine.safetensors", "--set", "optimizer.learning_rate=0.0")
            again = dt.load_state_dict(os.path.join(folder, "second", "checkpoints", "last.safetensors"))
            for name in ("conv1.weight", "norm1.bias", "fc1.weight"):
                torch.testing.assert_close(again[name], state[name], rtol=0, atol=0)


TRAINED = """
name: net
backend: cpu
data: {dataset: synthetic_images, batch: 16, size: 8, channels: 3, train_count: 32, validation_count: 16}
train: {epochs: 1}
optimizer: {type: sgd, learning_rate: 0.001}
layers:
  - {name: conv1, type: conv2d, out_channels: 6, kernel: 3}
  - {name: norm1, type: batch_norm2d}
  - {name: flatten, type: flatten}
  - {name: fc1, type: linear, out_features: 10}
  - {name: loss, type: softmax_cross_entropy}
"""


if __name__ == "__main__":
    unittest.main()

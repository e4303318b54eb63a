"""duet and duet.ops with NumPy arrays, on the CPU."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import duet
from duet import ops


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def numeric_gradient(f, array, dy, eps=1e-6):
    """Of sum(f() * dy) with respect to `array`, which f reads; in double."""
    gradient = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        kept = array[i]
        array[i] = kept + eps
        above = (f() * dy).sum()
        array[i] = kept - eps
        below = (f() * dy).sum()
        array[i] = kept
        gradient[i] = (above - below) / (2 * eps)
    return gradient


def conv2d_by_loops(x, w, b, stride, padding):
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, _, h, width = x.shape
    k, _, r, s = w.shape
    y = np.zeros((n, k, (h - r) // stride + 1, (width - s) // stride + 1), x.dtype)
    for p, q in np.ndindex(y.shape[2:]):
        window = x[:, :, p * stride:p * stride + r, q * stride:q * stride + s]
        y[:, :, p, q] = np.einsum("ncrs,kcrs->nk", window, w) + b
    return y


class Functions(unittest.TestCase):
    def test_conv2d(self):
        x, w, b = normal(2, 3, 8, 7), normal(4, 3, 3, 3, seed=1), normal(4, seed=2)
        expected = conv2d_by_loops(x, w, b, 2, 1)
        for impl in (None, "cpu", "cpu_blas", "cpu_reference", {"forward": "cpu_reference"}):
            with self.subTest(impl=impl):
                y = ops.conv2d(x, w, b, stride=2, padding=1, impl=impl)
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)

    def test_channels_last_stays_so(self):
        def last(array):
            return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

        x, w = normal(2, 3, 8, 7), normal(4, 3, 3, 3, seed=1)
        y = ops.conv2d(last(x), last(w))
        self.assertTrue(y.transpose(0, 2, 3, 1).flags.c_contiguous)
        np.testing.assert_allclose(y, ops.conv2d(x, w), rtol=1e-5, atol=1e-5)

    def test_gradients_in_double(self):
        """Of each function against numbers; of PyTorch's arguments in PyTorch's order."""
        image, rows = normal(2, 2, 5, 4, dtype=float), normal(3, 4, dtype=float)
        mean, var = np.zeros(2), np.ones(2)
        cases = {
            "conv2d": (lambda x, w, b, **k: ops.conv2d(x, w, b, padding=1, stride=(1, 2), **k),
                       [image, normal(3, 2, 3, 2, dtype=float), normal(3, dtype=float)]),
            "linear": (ops.linear, [rows, normal(5, 4, dtype=float), normal(5, dtype=float)]),
            "batch_norm": (lambda x, w, b, **k: _without_statistics(
                ops.batch_norm(x, mean.copy(), var.copy(), w, b, training=True, **k)),
                           [image, normal(2, dtype=float), normal(2, dtype=float)]),
            "layer_norm": (lambda x, w, b, **k: ops.layer_norm(x, 4, w, b, **k),
                           [rows, normal(4, dtype=float), normal(4, dtype=float)]),
            "relu": (ops.relu, [image]), "leaky_relu": (ops.leaky_relu, [image]),
            "sigmoid": (ops.sigmoid, [rows]), "tanh": (ops.tanh, [rows]), "silu": (ops.silu, [rows]),
            "gelu": (ops.gelu, [rows]), "softmax": (ops.softmax, [rows]),
            "max_pool2d": (lambda x, **k: ops.max_pool2d(x, 2, stride=1, **k), [image]),
            "avg_pool2d": (lambda x, **k: ops.avg_pool2d(x, 2, **k), [image]),
            "global_avg_pool2d": (ops.global_avg_pool2d, [image]),
            "pixel_shuffle": (lambda x, **k: ops.pixel_shuffle(x, 2, **k), [normal(2, 8, 2, 3, dtype=float)]),
            "dropout": (lambda x, **k: ops.dropout(x, 0.3, seed=7, step=3, **k), [rows]),
            "add": (ops.add, [rows, normal(3, 4, dtype=float, seed=5)]),
            "concat": (ops.concat, [rows, normal(3, 2, dtype=float, seed=5)]),
        }
        for name, (function, arrays) in cases.items():
            with self.subTest(name):
                arrays = [a.copy() for a in arrays]
                y, backward = function(*arrays, grad=True)
                np.testing.assert_array_equal(y, function(*arrays))
                dy = normal(*y.shape, dtype=float, seed=9)
                for array, gradient in zip(arrays, backward(dy)):
                    expected = numeric_gradient(lambda: function(*arrays), array, dy)
                    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)

    def test_losses(self):
        x, target = normal(3, 4, dtype=float), np.array([1, 0, 3], np.int32)
        log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
        loss, backward = ops.cross_entropy(x, target, grad=True)
        self.assertAlmostEqual(loss[0], -log_p[np.arange(3), target].mean())
        for function in (ops.cross_entropy, ops.mse_loss, ops.binary_cross_entropy_with_logits,
                         ops.multi_margin_loss):
            with self.subTest(function.__name__):
                _, backward = function(x, target, grad=True)
                dx, nothing = backward(np.ones(1))
                self.assertIsNone(nothing)
                expected = numeric_gradient(lambda: function(x, target), x, np.ones(1))
                np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=1e-7)

    def test_cross_entropy_of_positions(self):
        x, target = normal(2, 3, 4, dtype=float), np.array([[1, 0, 3], [2, 2, -1]], np.int32)
        log_p = x - np.log(np.exp(x).sum(2, keepdims=True))
        picked = np.take_along_axis(log_p, np.maximum(target, 0)[..., None], 2)[..., 0]
        loss, backward = ops.cross_entropy(x, target, grad=True)
        self.assertAlmostEqual(loss[0], -picked[target >= 0].mean())
        self.assertEqual(ops.cross_entropy(x, target, ignore_index=-100)[0], loss[0])
        loss, backward = ops.cross_entropy(x, target, ignore_index=2, grad=True)
        self.assertAlmostEqual(loss[0], -picked[0].mean())
        dx, _ = backward(np.ones(1))
        expected = numeric_gradient(lambda: ops.cross_entropy(x, target, ignore_index=2), x, np.ones(1))
        np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=1e-7)
        with self.assertRaisesRegex(duet.ConfigError, "labels 2x3 int32 for logits 2x3x4, not 2x4 int32"):
            ops.cross_entropy(x, np.zeros((2, 4), np.int32))

    def test_top_k_accuracy(self):
        x, target = np.array([[3.0, 1, 2], [1, 2, 3], [0, 0, 0]]), np.array([2, 0, 1], np.int32)
        np.testing.assert_array_equal(ops.layer("top_k_accuracy", [x, target], k=2), [2, 3])

    def test_losses_and_metrics_of_two_tensors(self):
        x, target, rows = normal(3, 4, dtype=float), normal(3, 4, dtype=float, seed=1), np.array([0, -1, 2], np.int32)
        difference = (x - target)[[0, 2]]
        logits, of_logits = x[[0, 2]], target[[0, 2]]
        entropy = np.log1p(np.exp(logits)) - of_logits * logits
        for type, expected in (("mse_loss", difference**2), ("l1_loss", abs(difference)),
                               ("binary_cross_entropy_loss", entropy)):
            with self.subTest(type):
                loss, backward = ops.layer(type, [x, target, rows], grad=True)
                self.assertAlmostEqual(loss[0], expected.mean())
                dx, *others = backward(np.ones(1))
                self.assertEqual(others, [None, None])
                numeric = numeric_gradient(lambda: ops.layer(type, [x, target, rows]), x, np.ones(1))
                np.testing.assert_allclose(dx, numeric, rtol=1e-5, atol=1e-7)
        totals, backward = ops.layer("mean_squared_error", [x, target, rows], grad=True)
        np.testing.assert_allclose(totals, [(difference**2).mean(1).sum(), 2])
        self.assertEqual(backward(np.ones(2)), [None, None, None])

    def test_batch_norm_updates_its_statistics(self):
        x, mean, var = normal(8, 3, dtype=np.float64), np.zeros(3), np.ones(3)
        ops.batch_norm(x, mean, var, training=True)
        np.testing.assert_allclose(mean, 0.1 * x.mean(0))
        np.testing.assert_allclose(var, 0.9 + 0.1 * x.var(0, ddof=1))
        before = mean.copy()
        ops.batch_norm(x, mean, var)
        np.testing.assert_array_equal(mean, before)

    def test_any_layer_type(self):
        x, w, b = normal(2, 3, 8, 8), normal(4, 3, 3, 3), normal(4)
        y = ops.layer("conv2d_pool_relu", x, [w, b], out_channels=4, kernel=3, pool_kernel=2)
        expected = ops.relu(ops.max_pool2d(ops.conv2d(x, w, b), 2))
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
        self.assertIn("cpu_blas", duet.layer_types()["conv2d"].implementations)

    def test_inputs_are_only_read(self):
        x, w = normal(2, 3, 8, 8), normal(4, 3, 3, 3)
        x.flags.writeable = w.flags.writeable = False
        ops.conv2d(x, w)

    def test_threads_share_a_layer(self):
        x, w = normal(2, 3, 16, 16), normal(4, 3, 3, 3)
        expected = ops.conv2d(x, w)
        wrong = []

        def work():
            for _ in range(50):
                if not np.array_equal(ops.conv2d(x, w), expected):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(wrong, [])

    def test_jax(self):
        try:
            import jax
        except ImportError:
            self.skipTest("JAX is not installed")
        with jax.default_device(jax.devices("cpu")[0]):
            check_jax(self, jax)


def check_jax(test, jax):
    """On JAX's default device."""
    x, w = jax.numpy.asarray(normal(2, 3, 9, 9)), jax.numpy.asarray(normal(4, 3, 3, 3))
    y, backward = ops.conv2d(x, w, padding=1, grad=True)
    expected, gradients = jax.vjp(lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"), x, w)
    test.assertIsInstance(y, type(x))
    test.assertEqual(y.devices(), x.devices())
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(backward(jax.numpy.ones_like(y)), gradients(jax.numpy.ones_like(y))):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    with test.assertRaisesRegex(duet.UnsupportedError, "outside of jax.jit"):
        jax.jit(ops.relu)(x)


def _without_statistics(result):
    """x, weight and bias of batch_norm's gradients."""
    if not isinstance(result, tuple):
        return result
    y, backward = result
    return y, lambda dy: [g for g in backward(dy) if g is not None]


class Mistakes(unittest.TestCase):
    """Each is an exception with what to do, and the arrays are as they were."""

    def test_arrays(self):
        x, w = normal(2, 3, 8, 8), normal(4, 3, 3, 3)
        for call, error, message in [
            (lambda: ops.conv2d(x.astype(np.int64), w), duet.UnsupportedError, r"x \(2x3x8x8 int64\).*astype"),
            (lambda: ops.relu(x.astype(np.float16)), duet.UnsupportedError, "float16.*convert"),
            (lambda: ops.relu(x.astype(complex)), duet.UnsupportedError, "complex128"),
            (lambda: ops.relu(x.astype(">f4")), TypeError, ">f4.*asarray"),
            (lambda: ops.relu(np.array(["a"])), TypeError, "x is a ndarray of <U1"),
            (lambda: ops.conv2d(x[..., ::2], w), duet.ConfigError, "strides 192, 64, 8, 2.*ascontiguousarray"),
            (lambda: ops.conv2d(x, w[::-1]), duet.ConfigError, "w .*strides"),
            (lambda: ops.relu(np.broadcast_to(x[:1], (5, 3, 8, 8))), duet.ConfigError, "strides 0"),
            (lambda: ops.conv2d(x, w.astype(float)), duet.ConfigError, "w is 4x3x3x3 float64.*takes"),
            (lambda: ops.conv2d(x, w[:, :2].copy()), duet.ConfigError, "takes 4x3x3x3"),
            (lambda: ops.conv2d(x, w, normal(5)), duet.ConfigError, "b is 5 float32"),
            (lambda: ops.relu(normal(0, 3)), duet.ConfigError, "no elements"),
            (lambda: ops.relu(normal(1, 1, 1, 1, 2)), duet.ConfigError, "5 axes"),
            (lambda: ops.relu(np.frombuffer(bytes(17), np.uint8)[1:].view(np.float32).reshape(2, 2)), duet.ConfigError,
             "no multiple of 4 bytes; copy"),
            (lambda: ops.batch_norm(normal(1, 3), np.zeros(3, "f"), np.ones(3, "f"), training=True), duet.ConfigError,
             "batch_norm1d.*"),
            (lambda: ops.relu([1.0, 2.0]), TypeError, "not float; try numpy.asarray"),
            (lambda: ops.relu(None), TypeError, "NoneType"),
            (lambda: ops.cross_entropy(normal(2, 3), np.array([0, 1])), duet.UnsupportedError,
             r"target.*int64.*target.astype\('int32'\) for labels"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()

    def test_words(self):
        x, w = normal(2, 3, 8, 8), normal(4, 3, 3, 3)
        # A build without CUDA lists no implementations of the GPU.
        of_the_gpu = (
            (duet.UnsupportedError, "runs on the GPU") if duet.built_with_cuda() else (duet.ConfigError, "custom_naive")
        )
        for call, error, message in [
            (lambda: ops.conv2d(x, w, impl="cpu_bals"), duet.ConfigError, "did you mean 'cpu_blas'"),
            (lambda: ops.conv2d(x, w, impl="custom_naive"), *of_the_gpu),
            (lambda: ops.conv2d(x, w, impl={"forwards": "cpu"}), duet.ConfigError, "no pass 'forwards'"),
            (lambda: ops.conv2d(x.astype(float), w.astype(float), impl="cpu_blas"), duet.UnsupportedError,
             "'cpu_blas' cannot run forward.*these can: cpu_reference"),
            (lambda: ops.conv2d(x, w, stride=0), duet.ConfigError, "^conv2d: stride"),
            (lambda: ops.conv2d(x, w, math="fp8"), duet.ConfigError, "fp32 or tf32"),
            (lambda: ops.conv2d(x, normal(4, 3, 9, 9)), duet.ConfigError, "conv2d"),
            (lambda: ops.layer("conv3d", x), duet.ConfigError, "did you mean 'conv2d'"),
            (lambda: ops.layer("conv2d", x, [w], out_channels=4, kernel=3), duet.ConfigError, "2 parameters"),
            (lambda: ops.layer("relu", x, slop=1), duet.ConfigError, "slop"),
            (lambda: ops.softmax(x, 1), duet.UnsupportedError, "not the last"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()

    def test_a_wrong_word_spoils_no_right_one(self):
        """1, 1.0 and True are equal, and only one of them is the key's."""
        x, w = normal(2, 3, 8, 8), np.ones((4, 3, 3, 3), np.float32)
        for wrong, right in [
            (lambda: ops.avg_pool2d(x, 2, count_include_pad=1), lambda: ops.avg_pool2d(x, 2)),
            (lambda: ops.conv2d(x, w, groups=1.0), lambda: ops.conv2d(x, w)),
            (lambda: ops.layer("max_pool2d", x, kernel=[2.5, 2]), lambda: ops.layer("max_pool2d", x, kernel=[2, 2])),
            (lambda: ops.layer("layer_norm", x, [], axes=1.0, affine=False),
             lambda: ops.layer("layer_norm", x, [], axes=1, affine=False)),
        ]:
            with self.assertRaises(duet.ConfigError):
                wrong()
            right()
            with self.assertRaises(duet.ConfigError):  # nor does a right one serve for it
                wrong()

    def test_numbers_of_numpy_are_numbers(self):
        x, w = normal(2, 3, 8, 8), normal(4, 3, 3, 3, seed=1)
        for whole in (np.int64, np.int32, np.uint8, lambda n: np.array(n, "i8")):
            two, one = whole(2), whole(1)
            for made, expected in [
                (ops.max_pool2d(x, two), ops.max_pool2d(x, 2)),
                (ops.max_pool2d(x, (two, one), (one, two)), ops.max_pool2d(x, (2, 1), (1, 2))),
                (ops.avg_pool2d(x, np.array([2, 1]), count_include_pad=np.bool_(False)),
                 ops.avg_pool2d(x, (2, 1), count_include_pad=False)),
                (ops.conv2d(x, w, stride=two, padding=[one, two], groups=one),
                 ops.conv2d(x, w, stride=2, padding=(1, 2))),
                (ops.layer_norm(x, whole(8)), ops.layer_norm(x, 8)),
                (ops.layer("max_pool2d", x, kernel=two), ops.max_pool2d(x, 2)),
                (ops.softmax(x, dim=whole(3)), ops.softmax(x)),
                (ops.leaky_relu(x, np.float32(0.25)), ops.leaky_relu(x, 0.25)),
                (ops.dropout(x, np.float64(0.5), seed=two, stream=one, step=two),
                 ops.dropout(x, 0.5, seed=2, stream=1, step=2)),
                (ops.multi_margin_loss(x[0, :, :, 0].copy(), np.zeros(3, "i4"), p=two),
                 ops.multi_margin_loss(x[0, :, :, 0].copy(), np.zeros(3, "i4"), p=2)),
            ]:
                np.testing.assert_array_equal(made, expected)
        for wrong in (2.5, np.float32(2), "22", None, (1, 2, 3), np.array([1.5, 2])):
            with self.subTest(wrong), self.assertRaisesRegex(duet.ConfigError, "expected a whole number"):
                ops.max_pool2d(x, wrong)

    def test_no_locale_changes_numbers(self):
        """A window of Qt sets one, without being asked."""
        numeric = bytes([0x14, 0x11, 3, 0x20, 6, 0, 0, 0, 0x20, 0, 0, 0, 0x22, 0, 0, 0, 0x24, 0, 0, 0, 0x28, 0, 0, 0,
                         0x2c, 0, 0, 0, 0x30, 0, 0, 0]) + b",\0.\0\3\3\0\0,\0\0\0.\0\0\0UTF-8\0"
        text = """if True:
            import locale, numpy as np, duet
            from duet import ops
            try:
                locale.setlocale(locale.LC_NUMERIC, "xx_comma")
            except locale.Error:
                raise SystemExit(77)
            assert locale.str(0.5) == "0,5"
            x = np.array([[-1.0, 2.0]], "f4")
            assert ops.leaky_relu(x, 0.25).tolist() == [[-0.25, 2.0]]
            assert ops.dropout(x, 0.5, training=False).tolist() == x.tolist()
            ops.batch_norm(x, np.zeros(2, "f4"), np.ones(2, "f4"))
            ops.layer_norm(x, 2)
            ops.cross_entropy(x, np.array([1], "i4"), label_smoothing=0.1)
            try:
                import duet.torch, torch
            except ImportError:
                pass
            else:
                assert duet.torch.LeakyReLU(0.125)(torch.tensor(x)).tolist() == [[-0.125, 2.0]]
            """
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "xx_comma"))
            with open(os.path.join(folder, "xx_comma", "LC_NUMERIC"), "wb") as file:
                file.write(numeric)
            child = subprocess.run([sys.executable, "-c", text], env={**os.environ, "LOCPATH": folder},
                                   capture_output=True, text=True)
        if child.returncode == 77:
            self.skipTest("the C library is not glibc")
        self.assertEqual((child.returncode, child.stderr), (0, ""))

    def test_gradients_of_another_shape(self):
        y, backward = ops.relu(normal(2, 3), grad=True)
        with self.assertRaisesRegex(duet.ConfigError, "dy is 3x2 float32, and the output was 2x3"):
            backward(normal(3, 2))
        with self.assertRaisesRegex(TypeError, "not NoneType; try numpy.asarray"):
            backward(None)
        self.assertEqual(backward(np.ones_like(y))[0].shape, (2, 3))

    def test_errors_are_the_usual_ones_too(self):
        self.assertTrue(issubclass(duet.ConfigError, ValueError))
        self.assertTrue(issubclass(duet.UnsupportedError, NotImplementedError))
        self.assertTrue(issubclass(duet.OutOfMemoryError, MemoryError))


class Measurements(unittest.TestCase):
    SHAPE = "n=2,c=3,h=6,w=5,k=4,r=3,s=3"

    def test_check(self):
        results = duet.check("conv2d", self.SHAPE, device="cpu")
        self.assertEqual(results["schema"], "duet.bench/1")
        rows = results.rows()
        self.assertEqual({row["implementation"] for row in rows}, {"cpu_blas", "cpu_reference"})
        self.assertEqual({row["pass"] for row in rows}, {"forward", "backward_data", "backward_filter"})
        self.assertTrue(results.ok and all(row["agrees"] for row in rows), results)
        self.assertTrue(all(row["us"] is None for row in rows))
        self.assertIn("cpu_blas", str(results))
        self.assertIn("<td>cpu_blas</td>", results._repr_html_())

    def test_bench(self):
        results = duet.bench("linear", "n=4,in=5,out=3", passes="forward", device="cpu", quick=True)
        self.assertTrue(all(row["us"] > 0 for row in results.rows()))
        try:
            import pandas
        except ImportError:
            return
        self.assertIsInstance(results.frame(), pandas.DataFrame)
        self.assertEqual(len(results.frame()), len(results.rows()))

    def test_compare(self):
        config = os.path.join(os.environ["DUET_REPOSITORY"], "configs", "lenet5_fashion.yaml")
        results = duet.compare(config, "cpu_blas", "cpu", only="layers", quick=True, batch=2,
                               set={"data.dataset": "synthetic_images", "data.batch": 2, "data.train_count": 8,
                                    "data.validation_count": 4})
        self.assertEqual(results["schema"], "duet.compare/1")
        self.assertIn("cpu_blas", {row["arm"] for row in results.rows()})

    def test_mistakes(self):
        for call, error, message in [
            (lambda: duet.check("conv2d"), duet.ConfigError, "needs a shape"),
            (lambda: duet.check(), duet.ConfigError, "name a layer"),
            (lambda: duet.bench("conv2d", "n=2,c=3"), duet.ConfigError, "out_channels|expected|incomplete"),
            (lambda: duet.bench("relu", "n=2,c=3", impl="cpu_x"), duet.ConfigError, "cpu_x"),
            (lambda: duet.bench("relu", "n=2,c=3", device="tpu"), duet.ConfigError, "cpu or gpu"),
            (lambda: duet.compare("no_such.yaml"), duet.Error, "no_such.yaml"),
            (lambda: duet.load_kernels("no_such_folder"), duet.Error, "no_such_folder"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()

    @unittest.skipIf(duet.gpu_available(), "there is a GPU")
    def test_a_gpu_is_asked_for_where_none_is(self):
        with self.assertRaises(duet.UnsupportedError):
            duet.check("relu", "n=2,c=3", impl="custom")


class Kernels(unittest.TestCase):
    def test_a_file_is_an_implementation(self):
        """As far as that goes without a GPU: it is listed, and refused for arrays on the CPU by name."""
        text = ("// relu custom_mine_python: an element a thread.\n"
                "__global__ void forward(const float* x, float* y) {\n"
                "  const long long i = blockIdx.x * 256LL + threadIdx.x;\n"
                "  if (i < ELEMENTS) y[i] = x[i] > 0 ? x[i] : 0;\n}\n"
                "DUET_LAUNCH(forward, forward, (ELEMENTS + 255) / 256, 256);\n")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "relu_custom_mine_python.cu"), "w") as file:
                file.write(text)
            duet.load_kernels(folder)
        self.assertIn("custom_mine_python", duet.layer_types()["relu"].implementations)
        with self.assertRaisesRegex(duet.UnsupportedError, "'custom_mine_python' runs on the GPU"):
            ops.relu(normal(2, 3), impl="custom_mine_python")
        duet.__dict__["_kernel_paths"].clear()  # the folder is gone

    def test_a_file_with_forward_alone_serves_without_a_gradient(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "relu_cpu_forward_alone.cpp"), "w") as file:
                file.write("void forward(const float* x, float* y) {\n"
                           "  for (int i = 0; i < ELEMENTS; ++i) y[i] = x[i] > 0 ? x[i] : 0;\n}\n")
            duet.load_kernels(folder)
            x = normal(2, 3)
            np.testing.assert_array_equal(ops.relu(x, impl="cpu_forward_alone"), np.maximum(x, 0))
            with self.assertRaisesRegex(duet.UnsupportedError, "backward cannot: its file has no function"):
                ops.relu(x, impl="cpu_forward_alone", grad=True)
        duet.__dict__["_kernel_paths"].clear()  # the folder is gone

    def test_whatever_a_file_throws_is_an_error_of_duets(self):
        for number, (what, error, message) in enumerate([
            ("7", duet.RunError, "cpu_throws0 threw an exception of type int"),
            ("std::string(\"oops\")", duet.RunError, "cpu_throws1 threw an exception of type std::.*string"),
            ("std::out_of_range(\"oops\")", duet.RunError, "cpu_throws2 threw an exception: oops"),
            ("std::bad_alloc()", duet.OutOfMemoryError, "cpu_throws3: out of memory"),
        ]):
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, f"relu_cpu_throws{number}.cpp"), "w") as file:
                    file.write("#include <new>\n#include <stdexcept>\n#include <string>\n"
                               f"void forward(const float*, float*) {{ throw {what}; }}\n")
                duet.load_kernels(folder)
                with self.assertRaisesRegex(error, message):
                    ops.relu(normal(2, 3), impl=f"cpu_throws{number}")
                duet.__dict__["_kernel_paths"].clear()  # the folder is gone

    def test_a_file_that_does_not_compile_is_not_ok(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "relu_cpu_oops.cpp"), "w") as file:
                file.write("oops\n")
            duet.load_kernels(folder)
            results = duet.check("relu", "n=2,c=3", device="cpu", passes="forward")
            duet.__dict__["_kernel_paths"].clear()  # the folder is gone
        self.assertFalse(results.ok)
        self.assertTrue(all(row["agrees"] for row in results.rows()))

    def test_a_plugin_finds_the_library_in_the_module(self):
        text = ("#include \"layers/activation/activation.h\"\n#include \"user_kernels/plugin.h\"\n"
                "class Mine : public duet::ActivationImpl {\n public:\n  using duet::ActivationImpl::ActivationImpl;\n"
                "  void forward(const duet::Run&, const duet::Tensor& x, const duet::Tensor& y,\n"
                "               const duet::Tensor&) override {\n"
                "    if (x.elements() != problem_.x.elements()) throw duet::ShapeError(problem_.to_string());\n"
                "    for (int i = 0; i < x.elements(); ++i) y.data<float>()[i] = x.data<float>()[i] > 0 ? 7 : 0;\n  }\n"
                "  void backward(const duet::Run&, const duet::Tensor&, const duet::Tensor&, const duet::Tensor&,\n"
                "                const duet::Tensor&, const duet::Tensor&) override {}\n};\n"
                "DUET_PLUGIN(duet::impl_entry<Mine>(\"cpu_plugin\"));\n")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "relu_cpu_plugin.cpp"), "w") as file:
                file.write(text)
            duet.load_kernels(folder)
            y = ops.relu(np.array([[-1.0, 2.0]], dtype="float32"), impl="cpu_plugin")
        np.testing.assert_array_equal(y, [[0, 7]])
        duet.__dict__["_kernel_paths"].clear()  # the folder is gone


class Package(unittest.TestCase):
    def test_imports_without_numpy_and_torch(self):
        code = ("import sys\nsys.modules['numpy'] = sys.modules['torch'] = None\nimport duet\n"
                "print(len(duet.layer_types()))\n"
                "try:\n    import duet.torch\nexcept ImportError as e:\n    print(e)\n")
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertIn("duet.torch needs PyTorch: pip install torch", out)

    def test_stubs_name_what_the_module_has(self):
        import ast

        from duet import _duet

        path = os.path.join(os.path.dirname(duet.__file__), "_duet.pyi")
        with open(path) as file:
            tree = ast.parse(file.read())
        named = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        self.assertEqual(named, {name for name in dir(_duet) if not name.startswith("__")})
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                methods = {name for name in methods if not name.startswith("__")}
                self.assertEqual(methods, {name for name in dir(getattr(_duet, node.name)) if not name.startswith("__")})
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(path), "py.typed")))

    def test_every_public_name_has_a_docstring(self):
        for module in (duet, ops):
            for name in module.__all__:
                with self.subTest(name):
                    self.assertTrue(getattr(module, name).__doc__)


if __name__ == "__main__":
    unittest.main()

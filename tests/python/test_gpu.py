"""What a GPU adds: torch's tensors there, its streams and graphs; and CuPy's arrays. Skipped without a GPU."""

import unittest

import duet

if not duet.gpu_available():
    raise unittest.SkipTest("no GPU that Duet can use")
try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed")
if not torch.cuda.is_available():
    raise unittest.SkipTest("this PyTorch has no GPU")

import duet.torch as dt
from test_numpy import check_jax


def pair(backend):
    torch.manual_seed(0)
    ours = dt.Conv2d(64, 64, 3, padding=1, backend=backend, device="cuda")
    theirs = nn.Conv2d(64, 64, 3, padding=1, device="cuda")
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


class Gpu(unittest.TestCase):
    def setUp(self):
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False

    def test_as_torch(self):
        for backend in (None, "custom_naive", "cudnn"):
            with self.subTest(backend):
                ours, theirs = pair(backend)
                x = torch.randn(4, 64, 13, 13, device="cuda")
                for module in (ours, theirs):
                    module.x = x.clone().requires_grad_()
                    module.y = module(module.x)
                    module.y.square().sum().backward()
                close(ours.y, theirs.y)
                close(ours.x.grad, theirs.x.grad)
                close(ours.weight.grad, theirs.weight.grad)

    def test_runs_on_the_current_stream(self):
        """Work queued before on that stream is waited for, and nothing else is."""
        ours, theirs = pair(None)
        x = torch.zeros(4, 64, 13, 13, device="cuda")
        ours(x)
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream), torch.no_grad():
                torch.cuda._sleep(20_000_000)
                x.fill_(1)
                y = ours(x)
                x.fill_(0)
            torch.cuda.synchronize()
            close(y, theirs(torch.ones_like(x)))

    def test_waits_for_nothing(self):
        ours, _ = pair(None)
        x = torch.randn(4, 64, 13, 13, device="cuda", requires_grad=True)
        ours(x).sum().backward()
        torch.cuda.set_sync_debug_mode("error")
        try:
            ours(x).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_captured_in_a_graph(self):
        ours, theirs = pair(None)
        x = torch.randn(4, 64, 13, 13, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            ours(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            y = ours(x)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn_like(x))
            graph.replay()
            close(y, theirs(x))

    def test_refuses_the_cpu_family(self):
        with self.assertRaisesRegex(duet.UnsupportedError, "'cpu_blas' runs on the CPU"):
            pair("cpu_blas")[0](torch.randn(1, 64, 5, 5, device="cuda"))

    def test_cupy(self):
        try:
            import cupy
        except ImportError:
            self.skipTest("CuPy is not installed")
        x = cupy.random.standard_normal((8, 16), dtype=cupy.float32)
        y, backward = duet.ops.relu(x, grad=True)
        self.assertTrue((y == cupy.maximum(x, 0)).all())
        self.assertTrue((backward(cupy.ones_like(x))[0] == (x > 0)).all())

    def test_jax(self):
        try:
            import jax
        except ImportError:
            self.skipTest("JAX is not installed")
        if jax.default_backend() != "gpu":
            self.skipTest("this JAX has no GPU")
        with jax.default_matmul_precision("highest"):
            check_jax(self, jax)


if __name__ == "__main__":
    unittest.main()

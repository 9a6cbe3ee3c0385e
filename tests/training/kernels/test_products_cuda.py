"""The sum of products over examples by a Triton kernel: that of double precision, whatever the other examples are."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from training.devices import needs_gpu, run_interpreted

SCRIPT = """
from unittest import mock
from hush.training.kernels import products_cuda

torch.cuda.get_device_capability = lambda device: (9, 0)
torch.cuda.get_device_properties = lambda device: mock.Mock(multi_processor_count=132)
for size, positions, outputs, inputs in ((3, 20, 9, 140), (1, 70, 130, 5), (5, 64, 16, 16), (3, 70, 264, 136)):
    g, x = torch.randn(size, positions, outputs).half(), torch.randn(size, positions, inputs).half()
    expected = torch.einsum("itp,itd->pd", g.double(), x.double())
    assert products_cuda._has_tma(g, x) == (outputs % 8 == inputs % 8 == 0)
    results = [products_cuda.product_sum(g, x)]
    with mock.patch.object(products_cuda, "_has_tma", lambda g, x: False):
        results.append(products_cuda.product_sum(g, x))
    for result in results:
        assert result.dtype is torch.float64
        assert torch.allclose(result, expected, rtol=1e-5, atol=1e-4)
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_interpreted_kernel() -> None:
    run_interpreted(SCRIPT)


@needs_gpu
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "shape",
    [
        (3, 20, 9, 140),
        (64, 197, 768, 130),
        (2, 300, 70, 768),
        (1, 16, 128, 128),
        (64, 197, 768, 3072),
        (3, 70, 264, 136),
    ],
)
def test_the_kernel_agrees_with_double_precision(shape: tuple[int, int, int, int], kind: torch.dtype) -> None:
    from hush.training.kernels.products_cuda import product_sum

    size, positions, outputs, inputs = shape
    g = torch.randn(size, positions, outputs, device="cuda").to(kind)
    x = torch.randn(size, positions, inputs, device="cuda").to(kind)
    expected = torch.einsum("itp,itd->pd", g.double(), x.double())
    assert torch.allclose(product_sum(g, x), expected, rtol=1e-4, atol=1e-3)


@needs_gpu
def test_an_example_changes_the_sum_by_its_own_product_whatever_the_others_are() -> None:
    """A large example, and thousands of tiny ones: in single precision these would be rounded up because of it."""
    from hush.training.kernels.products_cuda import product_sum

    g = torch.full((4096, 16, 16), 2.0**-17, device="cuda").bfloat16()
    x = torch.full((4096, 16, 16), 2.0**-8 * 1.5, device="cuda").bfloat16()
    g[0], x[0] = 1.0, 1.0
    without = g.clone()
    without[0] = 0
    change = product_sum(g, x) - product_sum(without, x)
    assert float((change - 16).abs().max()) <= 4096 * 2.0**-53 * 32

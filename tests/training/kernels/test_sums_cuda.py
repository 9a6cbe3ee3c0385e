"""Norms, clip factors and weighted sums by Triton, interpreted on the CPU, against plain tensor code."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from training.devices import run_interpreted

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")

SCRIPT = """
from hush.training.kernels import sums_cuda

size = 11
# Transposed, cut and half-precision tensors; one example is not finite in one of them.
dense = [torch.randn(size, 70, 90), torch.randn(size, 5000).bfloat16(), torch.randn(size, 90, 33).mT,
         torch.randn(size, 40, 64)[:, :33], torch.randn(size, 7), torch.randn(size, 64, 48).bfloat16()]
dense[1][3] = torch.nan
groups = [0, 1, 0, 1, 0, 1]
exact = [values.flatten(1).double().square().sum(1) for values in dense]
by_group = torch.stack([exact[0] + exact[2] + exact[4], exact[1] + exact[3] + exact[5]])
assert torch.allclose(sums_cuda.squares(dense, groups, 2), by_group, rtol=1e-5, equal_nan=True)
squares, expected = sums_cuda.squares(dense, [0] * 6, 1), sum(exact)
assert torch.allclose(squares[0], expected, rtol=1e-5, equal_nan=True)

chosen = torch.ones(size)
chosen[2] = 0
doubts, roundings = torch.full_like(squares, 3), torch.full_like(squares, 2)
factors, norms = sums_cuda.factors(squares, doubts, roundings, chosen, 10.0, 4.0)
bounds = (expected + 3).sqrt() + 2**0.5
correct = (40 / bounds).clamp(max=1) / 4 * chosen
correct[3] = 0
assert torch.allclose(factors[0].double(), correct, rtol=1e-5)
factors = torch.stack([factors[0], 2 * factors[0]])
assert torch.allclose(norms.double(), expected.sqrt() / 4, rtol=1e-5, equal_nan=True)

for values, group, total in zip(dense, groups, sums_cuda.weighted_sums(dense, groups, factors), strict=True):
    weights = factors[group].view(-1, *[1] * (values.dim() - 1))
    assert torch.allclose(total, (torch.nan_to_num(values.double()) * weights.double()).sum(0), rtol=1e-12, atol=1e-12)

tensors = [torch.randn(size, 5, 33), torch.randn(size, 5, 33), torch.randn(size, 2, 3)]
tensors[0][3] = torch.nan
for values, group, result in zip(tensors, [1, 0, 1], sums_cuda.scaled(tensors, [1, 0, 1], factors), strict=True):
    assert torch.allclose(result, torch.nan_to_num(values) * factors[group].view(-1, 1, 1)), "0 where the factor is"
"""


@pytest.mark.slow
def test_interpreted_kernels() -> None:
    run_interpreted(SCRIPT)

"""Kernels of GPUs, interpreted on the CPU, against plain tensor code. Skipped where Triton is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")

SCRIPT = """
import contextlib
import torch

torch.cuda.device = lambda device: contextlib.nullcontext()
torch.Tensor.pin_memory = lambda tensor: tensor
from hush.training.kernels import gram, gram_cuda, sums_cuda
from hush.training.per_example.norms import Measure

torch.manual_seed(0)
size = 11
dense = [torch.randn(size, 70, 90), torch.randn(size, 5000).bfloat16(), torch.randn(size, 90, 33).mT,
         torch.randn(size, 40, 64)[:, :33], torch.randn(size, 7), torch.randn(size, 64, 48).bfloat16()]
dense[1][3] = torch.nan
places = [0, 1, 0, 1, 0, 1]
own = [each.flatten(1).double().square().sum(1) for each in dense]
split = torch.stack([own[0] + own[2] + own[4], own[1] + own[3] + own[5]])
assert torch.allclose(sums_cuda.squares(dense, places, 2), split, rtol=1e-5, equal_nan=True)
squares, expected = sums_cuda.squares(dense, [0] * 6, 1), sum(own)
assert torch.allclose(squares[0], expected, rtol=1e-5, equal_nan=True)

chosen = torch.ones(size)
chosen[2] = 0
doubts, roundings = torch.full_like(squares, 3), torch.full_like(squares, 2)
factors, norms = sums_cuda.factors(squares, doubts, roundings, chosen, 10.0, 4.0)
bounds = (expected + 3).sqrt() + 2**0.5
right = (40 / bounds).clamp(max=1) / 4 * chosen
right[3] = 0
assert torch.allclose(factors[0].double(), right, rtol=1e-5)
factors = torch.stack([factors[0], 2 * factors[0]])
assert torch.allclose(norms.double(), expected.sqrt() / 4, rtol=1e-5, equal_nan=True)

for each, place, total in zip(dense, places, sums_cuda.weighted_sums(dense, places, factors), strict=True):
    weights = factors[place].view(-1, *[1] * (each.dim() - 1))
    assert torch.allclose(total, (torch.nan_to_num(each.float()) * weights).sum(0), rtol=1e-4, atol=1e-5)

some = [torch.randn(size, 5, 33), torch.randn(size, 5, 33), torch.randn(size, 2, 3)]
some[0][3] = torch.nan
for each, place, result in zip(some, [1, 0, 1], sums_cuda.scaled(some, [1, 0, 1], factors), strict=True):
    assert torch.allclose(result, torch.nan_to_num(each) * factors[place].view(-1, 1, 1)), "0 where the factor is"

pairs = [(torch.randn(3, 70, 20), torch.randn(3, 70, 9)), (torch.randn(3, 33, 5).mT, torch.randn(3, 5, 40)),
         (torch.randn(3, 130, 20), torch.randn(3, 130, 9)), (torch.randn(3, 70, 20), torch.randn(3, 70, 9))]
for found, right in zip(gram_cuda.gram(pairs), gram.gram(pairs), strict=True):
    assert torch.allclose(found, right, rtol=1e-4)
print("done")
"""


@pytest.mark.slow
def test_interpreted_kernels() -> None:
    variables = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, env=variables)
    assert run.stdout.strip() == "done", run.stderr[-2000:]

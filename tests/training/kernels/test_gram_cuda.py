"""Norms from inner products by Triton, on a GPU and interpreted, against the plain computation."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from hush.training.kernels.gram import gram
from training.devices import needs_gpu, run_interpreted

SCRIPT = """
from hush.training.kernels import gram, gram_cuda

pairs = [(torch.randn(3, 70, 20), torch.randn(3, 70, 9)), (torch.randn(3, 33, 5).mT, torch.randn(3, 5, 40)),
         (torch.randn(3, 130, 20), torch.randn(3, 130, 9)), (torch.randn(3, 70, 20), torch.randn(3, 70, 9))]
for result, expected in zip(gram_cuda.gram(pairs), gram.gram(pairs), strict=True):
    assert torch.allclose(result, expected, rtol=1e-4)
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_interpreted_kernel() -> None:
    run_interpreted(SCRIPT)


@needs_gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 5, 7, 9), (2, 64, 64, 32), (4, 197, 96, 130), (2, 300, 768, 70)])
def test_the_kernel_agrees_with_the_cpu(shape: tuple[int, int, int, int], kind: torch.dtype) -> None:
    size, positions, inputs, outputs = shape
    x = torch.randn(size, positions, inputs, device="cuda").to(kind)
    g = torch.randn(size, positions, outputs, device="cuda").to(kind) * 0.1
    for result, expected in zip(gram([(x, g)] * 2), gram([(x.cpu(), g.cpu())] * 2), strict=True):
        assert torch.allclose(result.cpu(), expected, rtol=1e-4)

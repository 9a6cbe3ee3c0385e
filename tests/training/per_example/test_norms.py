"""Norms, what is uncertain about them, and clip factors: never a contribution beyond its target."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hush.errors import Unsupported
from hush.training import Automatic, Clipping, Flat, Global, Normalized, PerLayer
from hush.training.per_example import norms as norms_module
from hush.training.per_example.norms import (
    SquaredNorms,
    clip_factors,
    compute_dtype,
    dense_squares,
    dense_sums,
    measure_products,
    product_sum,
    refuse_too_many,
    relative_rounding,
    rounding_slack,
    scale_examples,
    square_norms,
    uses_kernels,
    zero_examples,
)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


# Squared norms as values


def test_parts_add_up() -> None:
    total = SquaredNorms(torch.tensor([1.0])).plus(SquaredNorms(torch.tensor([2.0]), torch.tensor([3.0])))
    assert (total.squares.tolist(), total.doubt, total.rounding) == ([3], torch.tensor([3.0]), None)
    total = total.plus(SquaredNorms(torch.tensor([0.0]), torch.tensor([1.0]), torch.tensor([5.0])))
    assert total.doubt is not None
    assert total.rounding is not None
    assert (total.doubt.tolist(), total.rounding.tolist()) == ([4], [5])


def test_norms_become_a_row_of_their_group() -> None:
    norms = SquaredNorms(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])).in_group(1, 3)
    assert norms.squares.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert norms.doubt is not None
    assert norms.doubt.tolist() == [[0, 0], [3, 4], [0, 0]]
    assert norms.rounding is None
    assert SquaredNorms(torch.tensor([1.0])).in_group(0, 1).squares.tolist() == [[1]]


# Computing them


@pytest.mark.parametrize("size", [1, 8191, 8192, 16_384, 20_000, 100_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_square_norms_are_precise(size: int, dtype: torch.dtype) -> None:
    values = random(3, size).to(dtype)
    assert torch.allclose(square_norms(values), values.double().square().sum(1), rtol=1e-5)
    sliced = random(3, size + 1).to(dtype)[:, 1:]
    assert torch.allclose(square_norms(sliced), sliced.double().square().sum(1), rtol=1e-5)


def test_many_equal_squares_are_not_too_small() -> None:
    """The slack for rounding is 1e-4. torch's own norm of four million equal numbers is too small by ten times that."""
    values = torch.full((1, 4_000_000), 1.3)
    exact = float(values.double().square().sum())
    assert float(square_norms(values)) == pytest.approx(exact, rel=5e-5)
    assert float(torch.linalg.vector_norm(values)) ** 2 < exact * (1 - 1e-3)


def test_dense_norms_and_sums_by_group() -> None:
    values, groups = [random(4, 3), random(4, 2, 5), random(4, 1)], [0, 1, 0]
    squares = dense_squares(values, groups, 2)
    assert torch.allclose(squares[0], (values[0].square().sum(1) + values[2].square().sum(1)).double(), rtol=1e-6)
    assert torch.allclose(squares[1], values[1].square().sum((1, 2)).double(), rtol=1e-6)
    factors = torch.tensor([[1.0, 0.5, 0.0, 2.0], [0.0, 0.0, 1.0, 0.0]])
    sums = dense_sums(values, groups, factors)
    assert torch.allclose(sums[0], (values[0].double() * factors[0].unsqueeze(1)).sum(0))
    assert torch.equal(sums[1], values[1][2].double())
    assert sums[1].shape == (2, 5)


def test_sums_of_half_precision_are_in_double_precision() -> None:
    ones = torch.ones(3000, 1, dtype=torch.bfloat16)
    (total,) = dense_sums([ones], [0], torch.ones(1, 3000))
    assert float(total) == 3000, "bf16 could count to 256 only"


@pytest.mark.parametrize("positions", [1, 2, 30])
def test_products_have_the_norms_of_their_sums(positions: int) -> None:
    pairs = [(random(4, positions, 5), random(4, positions, 3)), (random(8, positions, 2), random(8, positions, 2))]
    norms = measure_products(pairs, [1, 0], 2, 4)
    gradients = [torch.einsum("btp,btd->bpd", g.double(), x.double()).square().sum((1, 2)) for x, g in pairs]
    assert torch.allclose(norms.squares[1], gradients[0], rtol=1e-5)
    # Two pairs belong to each example in the second layer.
    assert torch.allclose(norms.squares[0], gradients[1].view(4, 2).sum(1), rtol=1e-5)
    assert norms.doubt is not None
    assert norms.rounding is not None
    assert bool((norms.rounding == 0).all())


def test_products_that_cancel_are_doubted() -> None:
    """Two positions of norm 1e4 that cancel up to 0.1: in fp32, the difference is mostly rounding."""
    x, g = torch.full((1, 2, 3), 1e4), torch.tensor([[[1.0], [-1.0]]])
    x[0, 0, 0] += 0.1
    norms = measure_products([(x, g)], [0], 1, 1)
    assert norms.doubt is not None
    assert float(norms.doubt) > 1e4, "far more than the squared norm of 0.01"
    apart = measure_products([(x, g.abs())], [0], 1, 1)
    assert apart.doubt is not None
    assert float(apart.doubt) == 0


def test_a_tiny_factor_of_a_large_one_is_not_lost() -> None:
    """The squares of 2.5e-23 vanish in fp32, but times 1e19 the gradient is not small."""
    x, g = torch.full((1, 1, 100), 2.5e-23), torch.full((1, 1, 1), 1e19)
    norms = measure_products([(x, g)], [0], 1, 1)
    assert float(norms.squares) >= (100**0.5 * 2.5e-23 * 1e19) ** 2
    beyond = measure_products([(torch.full((1, 1, 1), 1e31), torch.ones(1, 1, 1))], [0], 1, 1)
    assert torch.isinf(beyond.squares).all()


def test_only_products_in_bf16_are_rounded_before_they_are_added() -> None:
    assert relative_rounding(torch.zeros(1)) == 0
    assert relative_rounding(torch.zeros(1, dtype=torch.bfloat16)) == 0, "on a CPU, they are products of fp64"


@pytest.mark.parametrize("chosen", [None, torch.tensor([1.0, 0.5, 2.0])])
def test_products_of_wide_rows_are_summed_by_columns(chosen: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary's output has more columns than there are rows; parts of rows would each make a whole product."""
    left, right = random(3, 11), random(3, 4)
    expected = (left.double() * (1 if chosen is None else chosen.double().unsqueeze(1))).mT @ right.double()
    for elements in (1 << 18, 12, 1):
        monkeypatch.setattr(norms_module, "_CONVERTED", elements)
        assert torch.allclose(product_sum(left, right, chosen), expected, rtol=1e-12, atol=1e-12)


# Factors


def bounds_of(norms: SquaredNorms) -> Tensor:
    doubt = 0.0 if norms.doubt is None else norms.doubt
    rounding = torch.tensor(0.0) if norms.rounding is None else norms.rounding
    return (norms.squares + doubt).sqrt() + rounding.sqrt()


@pytest.mark.parametrize("clipping", [Flat(2.0), Automatic(2.0), Normalized(2.0), Global(2.0), Flat(2.0, PerLayer())])
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_no_contribution_exceeds_its_target(clipping: Clipping, scale: float) -> None:
    """With all that is uncertain about it; a broken twin that ignored the uncertainty would exceed it."""
    true_norms = torch.tensor([[0.1, 1.0, 1.5, 40.0], [0.0, 3.0, 1e8, 1e-8]], dtype=torch.float64)
    doubt, rounding = (torch.full_like(true_norms, share) * scale**2 for share in (0.2, 0.3))
    norms = SquaredNorms((true_norms * scale) ** 2, doubt, rounding)
    chosen, targets = torch.ones(4, dtype=torch.float64), torch.tensor([[1.5], [0.7]], dtype=torch.float64)
    factors, _ = clip_factors(norms, chosen, clipping, targets.flatten().tolist(), scale)
    assert bool((factors * bounds_of(norms) <= targets * (1 + 1e-12)).all())
    twin, _ = clip_factors(SquaredNorms(norms.squares), chosen, clipping, targets.flatten().tolist(), scale)
    assert bool((twin * bounds_of(norms) > targets).any())


def test_norms_are_those_of_the_groups() -> None:
    norms = SquaredNorms(torch.tensor([[9.0], [16.0]], dtype=torch.float64))
    _, group_norms = clip_factors(norms, torch.ones(1), Flat(1.0), [1.0, 1.0], 2.0)
    assert group_norms.tolist() == [[1.5], [2.0]]


def test_examples_that_are_not_finite_or_not_chosen_have_factor_0() -> None:
    squares = torch.tensor([[1.0, torch.nan, torch.inf, 1e62, 1.0]], dtype=torch.float64)
    chosen = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0])
    factors, norms = clip_factors(SquaredNorms(squares), chosen, Flat(0.5), [0.5], 1.0)
    assert factors.tolist() == [[0.5, 0, 0, 0, 0]]
    assert norms.isnan().tolist() == [[False, True, True, True, False]]
    two_groups = SquaredNorms(torch.tensor([[1.0, 1.0], [torch.nan, 1.0]], dtype=torch.float64))
    factors, norms = clip_factors(two_groups, torch.ones(2), Flat(1.0, PerLayer()), [1.0, 1.0], 1.0)
    assert factors.tolist() == [[0, 1], [0, 1]], "not finite in one group: left out of all"
    assert norms.isnan().tolist() == [[True, False], [True, False]]


def test_the_slack_is_constant_and_what_it_does_not_cover_is_refused() -> None:
    """A share of 2^-11 is for rounding to the noise's grid, 1e-4 for norms, and 2^-13 for additions."""
    assert rounding_slack() == 2.0**-11 + 1e-4 + 2.0**-13
    assert rounding_slack() < 1e-3
    refuse_too_many(10**6, 10**5)
    with pytest.raises(Unsupported, match="physical_batch_size"):
        refuse_too_many(10**6, 10**6)
    with pytest.raises(Unsupported):
        refuse_too_many(1, 10**8)


# Small tools


def test_examples_are_scaled_and_zeroed() -> None:
    values = torch.tensor([[1.0, torch.inf], [2.0, 3.0]])
    assert scale_examples(values, torch.tensor([0.0, 2.0])).tolist() == [[0, 0], [4, 6]]
    assert zero_examples(values, torch.tensor([True, False])).tolist() == [[0, 0], [2, 3]]
    assert scale_examples(values.bfloat16(), torch.ones(2)).dtype is torch.float64
    assert compute_dtype(values.double()) is torch.float64
    assert not uses_kernels(values)

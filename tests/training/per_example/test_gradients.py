"""Forms of per-example gradients: norms, sums, joined and cleaned forms are those of the gradients themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hush.training import Flat
from hush.training.per_example import gradients as gradients_module
from hush.training.per_example.clipped_sum import ClipTargets, _factors
from hush.training.per_example.gradients import (
    DenseGradient,
    Gradient,
    OuterProducts,
    TableRows,
    TiedProducts,
    TiedTable,
    add_up_rows,
    merged,
    prefers_gram,
    prefers_products,
)
from hush.training.per_example.norms import dense_sums

SIZE = 4


def real(*shape: int) -> Tensor:
    return torch.randn(SIZE, *shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def table() -> TableRows:
    return add_up_rows(torch.tensor([[1, 1, 3], [0, 2, 0], [4, 4, 4], [3, 2, 1]]), real(3, 6), 5)


FORMS: dict[str, Callable[[], Gradient]] = {
    "dense": lambda: DenseGradient(real(5, 6)),
    "one position": lambda: OuterProducts(real(1, 6), real(1, 5)),
    "inner products": lambda: OuterProducts(real(3, 6), real(3, 5)),
    "many positions": lambda: OuterProducts(real(40, 6), real(40, 5)),
    "transposed": lambda: OuterProducts(real(3, 5), real(3, 6), transposed=True),
    "transposed, many positions": lambda: OuterProducts(real(40, 5), real(40, 6), transposed=True),
    "table": table,
    "tied": lambda: TiedTable(real(5, 6), table()),
    "tied products": lambda: TiedProducts(OuterProducts(real(3, 6), real(3, 5)), table()),
    "tied products, many positions": lambda: TiedProducts(OuterProducts(real(40, 6), real(40, 5)), table()),
}
every_form = pytest.mark.parametrize("name", FORMS)


def norms_of(gradient: Gradient, size: int) -> Tensor:
    """As clipping computes them, from all parts of the form together."""
    clip = ClipTargets(Flat(1e9), [1e9], 1.0)
    _, norms = _factors([gradient], [0], clip, torch.ones(size, dtype=torch.float64))
    return norms


def sum_of(gradient: Gradient, factors: Tensor) -> Tensor:
    parts = [gradient.weighted_sum(factors)]
    if gradient.dense is not None:
        parts.append(dense_sums([gradient.dense], [0], factors.unsqueeze(0))[0])
    return torch.stack([part for part in parts if part is not None]).sum(0)


def exact_sum(values: Tensor, factors: Tensor) -> Tensor:
    return torch.einsum("b,b...->...", factors, values)


@every_form
def test_norms_are_those_of_the_gradients(name: str) -> None:
    gradient = FORMS[name]()
    expected = gradient.materialize().flatten(1).norm(dim=1)
    assert torch.allclose(norms_of(gradient, SIZE), expected, rtol=1e-6)


@every_form
def test_sums_are_those_of_the_gradients(name: str) -> None:
    gradient, factors = FORMS[name](), torch.tensor([0.5, 0.0, 1.0, 0.25], dtype=torch.float64)
    assert torch.allclose(sum_of(gradient, factors), exact_sum(gradient.materialize(), factors))


@every_form
def test_joined_examples_are_sums_of_their_gradients(name: str) -> None:
    gradient = FORMS[name]()
    joined = gradient.joined(2)
    values = gradient.materialize()
    expected = values[::2] + values[1::2]
    assert torch.allclose(joined.materialize(), expected)
    assert torch.allclose(norms_of(joined, 2), expected.flatten(1).norm(dim=1), rtol=1e-6)
    factors = torch.tensor([0.5, 2.0], dtype=torch.float64)
    assert torch.allclose(sum_of(joined, factors), exact_sum(expected, factors))


@every_form
def test_bad_examples_leave_nothing(name: str) -> None:
    """A factor of 0 is not enough: 0 times NaN is NaN."""
    gradient = FORMS[name]()
    bad = torch.tensor([False, True, False, False])
    clean = gradient.without(bad)
    expected = gradient.materialize().masked_fill(bad.view(-1, 1, 1), 0.0)
    assert torch.allclose(clean.materialize(), expected)
    assert torch.allclose(sum_of(clean, torch.ones(SIZE, dtype=torch.float64)), expected.sum(0))


def test_few_examples_are_materialized_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = OuterProducts(real(40, 6), real(40, 5))
    assert len(gradient._chunks()) == 1
    expected = gradient.measure()
    monkeypatch.setattr(gradients_module, "_MAX_MATERIALIZED", 60)
    assert [part for _, part in gradient._chunks()] == [slice(0, 2), slice(2, 4)]
    measured = gradient.measure()
    assert expected is not None
    assert measured is not None
    assert torch.allclose(measured.squares, expected.squares)


def test_lookups_of_one_row_are_added_up() -> None:
    """A broken twin that kept them apart would take |a|^2 + |b|^2 for |a + b|^2."""
    rows = add_up_rows(torch.tensor([[2, 0, 2]]), torch.tensor([[[1.0], [5.0], [2.0]]]), 3)
    assert rows.materialize().flatten().tolist() == [5, 0, 3]
    measured = rows.measure()
    assert measured.squares.tolist() == pytest.approx([34])
    assert rows.rows.tolist()[0][:2] == [0, 2]
    assert float(rows.g[0, 2]) == 0, "a slot that is left over has gradient 0"


def test_a_table_that_cancels_its_output_layer_is_doubted() -> None:
    lookup = add_up_rows(torch.zeros(1, 1, dtype=torch.long), torch.full((1, 1, 2), 3.0), 2)
    output = torch.zeros(1, 2, 2)
    output[0, 0] = -3.0
    measured = TiedTable(output, lookup).measure()
    assert float(measured.squares + output.square().sum()) == pytest.approx(0, abs=1e-5)
    assert measured.doubt is not None
    assert float(measured.doubt) > 1e-5


def test_products_that_cancel_their_table_are_doubted() -> None:
    """And a twin without the cross term, |a|^2 + |b|^2, would be sqrt(2) |a| instead of 0."""
    lookup = add_up_rows(torch.zeros(1, 1, dtype=torch.long), torch.full((1, 1, 2), 3.0), 2)
    products = OuterProducts(torch.full((1, 1, 2), -3.0), torch.tensor([[[1.0, 0.0]]]))
    tied = TiedProducts(products, lookup)
    measured = tied.measure()
    assert float(tied.materialize().abs().max()) == 0
    assert float(measured.squares + 18) == pytest.approx(0, abs=1e-5)
    assert measured.doubt is not None
    # The norm counts as at least 2^-8 of each part's, or a sum of many such terms would round others' shares away.
    assert float(measured.doubt) >= 18 * 2.0**-16


def test_few_examples_cross_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tied = TiedProducts(OuterProducts(real(3, 6), real(3, 5)), table())
    expected = (tied.products.materialize() * tied.table.materialize()).sum((1, 2))
    for elements in (1 << 27, 10, 1):
        monkeypatch.setattr(gradients_module, "_MAX_MATERIALIZED", elements)
        assert torch.allclose(tied._crossed(), expected)


MERGES: dict[str, tuple[list[str], type[Gradient]]] = {
    "one": (["table"], TableRows),
    "products": (["inner products", "many positions"], OuterProducts),
    "tables": (["table", "table"], TableRows),
    "dense": (["dense", "dense", "dense"], DenseGradient),
    "products of both kinds": (["inner products", "transposed"], DenseGradient),
    "a tied table": (["table", "dense"], TiedTable),
    "a tied table, as products": (["table", "inner products", "many positions", "table"], TiedProducts),
    "a table tied the other way round": (["table", "transposed"], TiedTable),
    "everything": (["table", "inner products", "dense", "table"], TiedTable),
}


@pytest.mark.parametrize("name", MERGES)
def test_several_uses_are_merged_into_their_sum(name: str) -> None:
    names, kind = MERGES[name]
    uses = [FORMS[use]() for use in names]
    total = merged(uses)
    expected = torch.stack([use.materialize() for use in uses]).sum(0)
    assert isinstance(total, kind)
    assert torch.allclose(total.materialize(), expected)
    assert torch.allclose(norms_of(total, SIZE), expected.flatten(1).norm(dim=1), rtol=1e-6)


@pytest.mark.parametrize(
    ("positions", "inputs", "outputs", "expected"),
    [
        (1, 20, 10, True),  # one position: always
        (10, 20, 10, True),  # 2 T^2 = 200 is not more than d p = 200
        (11, 20, 10, False),  # but 242 is
        (60, 300, 100, True),
        (130, 300, 100, False),
    ],
)
def test_the_cost_model_follows_the_shapes(positions: int, inputs: int, outputs: int, expected: bool) -> None:
    """On a CPU, whatever the memory: where T (d + p) < d p, which would save memory, 2 T^2 < d p as well."""
    shape, like = (8, positions, inputs), torch.zeros(1)
    assert prefers_gram(shape, outputs, like) == (2 * positions**2 <= inputs * outputs)
    for memory in (1, 1 << 40):
        assert prefers_products(shape, outputs, like, memory) == expected

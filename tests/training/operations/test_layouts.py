"""Layouts against tensors that say of each entry whose it is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hush.training.operations.following import AllPairs, Follower
from hush.training.operations.layouts import Layout, by_example, owners_of, reshaped

SIZE = 3
sides = st.integers(1, 3)


def marked(shape: tuple[int, ...], layout: Layout) -> Tensor:
    """Return a tensor of this shape that holds the owner of each entry."""
    owners = owners_of(layout, shape[layout.dim], SIZE, torch.device("cpu"))
    return owners.view([-1 if dim == layout.dim else 1 for dim in range(len(shape))]).expand(shape).contiguous()


@given(sides, sides, sides, sides, st.permutations([0, 1, 2]), st.integers(0, 3))
def test_reshapes_and_permutations(first: int, outer: int, inner: int, last: int, order: list[int], cut: int) -> None:
    """Any split or merge of dimensions either keeps every entry's owner, or is not known."""
    shape = (first, outer * SIZE * inner, last)
    layout = Layout(1, inner)
    owners = marked(shape, layout)
    numbers = (first, outer, SIZE, inner, last)
    for new in (numbers, (*numbers[:cut], -1), (-1, *numbers[cut + 1 :])):
        after = tuple(owners.reshape(new).shape)
        result = reshaped(layout, shape, after, SIZE)
        if result.is_known:
            assert torch.equal(marked(after, result), owners.reshape(after))
    follower = Follower(SIZE, lambda x: layout if x is owners else None)
    turned = torch.permute(owners, order)
    result = follower.results(torch.permute, "permute", (owners, order), {}, [owners], turned)
    assert torch.equal(marked(tuple(turned.shape), result), turned)


@given(sides, sides, sides, st.booleans(), st.randoms(use_true_random=False))
def test_examples_first_and_back(outer: int, inner: int, last: int, shuffled: bool, random: object) -> None:
    """Each example finds its own entries in its row, and all return to their places."""
    length = outer * SIZE * inner
    layout = Layout(0, inner)
    if shuffled:
        order = list(range(length))
        random.shuffle(order)  # type: ignore[attr-defined]
        layout = Layout(0, 1, owners_of(layout, length, SIZE, torch.device("cpu"))[order])
    owners = marked((length, last), layout)
    first, back = by_example(owners, layout, SIZE)
    assert torch.equal(back(first), owners)
    assert all(set(first[example].flatten().tolist()) == {example} for example in range(1, SIZE))


def test_all_pairs_are_not_taken_for_an_input_that_examples_share() -> None:
    rows, columns = torch.zeros(SIZE, 2), torch.zeros(2, SIZE)
    follower = Follower(SIZE, lambda x: Layout(0) if x is rows else Layout(1))
    with pytest.raises(AllPairs):
        follower.results(torch.matmul, "matmul", (rows, columns), {}, [rows, columns], rows @ columns)

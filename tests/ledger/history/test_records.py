"""Budgets and shares as rows describe them: the same rules as the cap and the database."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hush.accounting.budget import Cap, Cost
from hush.guarantee import Unit
from hush.ledger.history.records import BlockRecord, Part, at_most, fits, larger, share_of

CAP = Cap(epsilon=2.0, delta=1e-6, unit=Unit.user())
LIMIT = CAP.limit
amounts = st.integers(min_value=0, max_value=2 * max(LIMIT.renyi, LIMIT.pure, LIMIT.delta))
costs = st.builds(Cost, renyi=amounts, pure=amounts, unbounded=st.integers(0, 2), delta=amounts)


@given(costs)
def test_a_part_fits_when_the_cap_says_so(cost: Cost) -> None:
    assert fits(Part(limit=LIMIT, spent=cost)) == CAP.fits(cost)


@given(costs)
def test_what_is_capped_always_fits(cost: Cost) -> None:
    capped = Part(limit=LIMIT, required=cost).capped()
    assert CAP.fits(capped)
    if CAP.fits(cost):
        assert capped == cost


@given(costs, costs)
def test_the_larger_of_two_costs_is_at_least_both(first: Cost, second: Cost) -> None:
    assert at_most(first, larger(first, second))
    assert at_most(second, larger(first, second))


def test_a_tolerance_for_rounding_and_no_more() -> None:
    assert at_most(Cost(renyi=1_000), Cost())
    assert not at_most(Cost(renyi=1_001), Cost())
    assert not at_most(Cost(unbounded=1), Cost())  # a count is exact


def test_a_share_is_rounded_down() -> None:
    third = share_of(LIMIT, 333_333)
    assert third.limit.pure == LIMIT.pure * 333_333 // 1_000_000
    assert not fits(
        Part(
            limit=third.limit,
            spent=Cost(pure=third.limit.pure + 1, unbounded=1, renyi=LIMIT.renyi, gaussian=LIMIT.gaussian),
        )
    )


def test_a_block_is_undercharged_or_overcharged() -> None:
    low, high = Cost(renyi=10_000, pure=10_000), Cost(renyi=50_000, pure=50_000)
    under = BlockRecord(budget=Part(limit=LIMIT, spent=low, required=high))
    over = BlockRecord(budget=Part(limit=LIMIT, spent=high, required=low))
    assert (under.is_undercharged, under.is_overcharged) == (True, False)
    assert (over.is_undercharged, over.is_overcharged) == (False, True)

"""Trade-off curves of claims."""

from __future__ import annotations

import math

import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound, Guarantee, TradeOff


def test_a_claim_is_a_curve_with_one_pair() -> None:
    claim = Guarantee(epsilon=1.0, delta=1e-5)
    curve = claim.tradeoff()
    for rate in (0.0, 0.01, 0.5, 1.0):
        assert curve.max_tpr(rate) == claim.max_tpr(rate)
        assert curve.min_fnr(rate) == 1 - claim.max_tpr(rate)


def test_pairs_that_hold_together_bound_more() -> None:
    first, second = TradeOff(((0.0, 0.1),)), TradeOff(((1.0, 0.0),))
    both = TradeOff((*first.pairs, *second.pairs))
    assert both.points() == [
        (rate, min(one, other)) for (rate, one), (_, other) in zip(first.points(), second.points(), strict=True)
    ]
    assert both.points(3)[0] == (0.0, 0.0)
    assert both.points(3)[-1] == (1.0, 1.0)


def test_a_lower_bound_caps_no_attack() -> None:
    with pytest.raises(Unsupported, match="lower bound"):
        Guarantee(epsilon=1.0, delta=0.0, bound=Bound.LOWER).tradeoff()


def test_infinity_promises_nothing() -> None:
    assert Guarantee(epsilon=math.inf, delta=0.0).tradeoff().max_tpr(0.1) == 1


@pytest.mark.parametrize("pairs", [(), ((math.nan, 0.0),), ((-1.0, 0.0),), ((1.0, 1.0),), [(1.0, 0.0)]])
def test_what_is_no_pair_is_refused(pairs: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(InvalidArgument, match="pairs|delta"):
        TradeOff(pairs)

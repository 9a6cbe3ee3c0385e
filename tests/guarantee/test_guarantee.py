"""The value itself: what it refuses, how it prints, what a group gets."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound, Guarantee, Relation, Unit
from strategies import deltas, epsilons, fractions, guarantees, not_numbers

UPPER = (Bound.UPPER,)


def make(**fields: Any) -> Guarantee:
    return Guarantee(**{"epsilon": 1.0, "delta": 1e-5, **fields})


class TestConstruction:
    def test_defaults_are_the_convention_of_the_field(self) -> None:
        claim = make()
        assert (claim.unit, claim.relation, claim.bound) == (Unit.example(), Relation.ADD_OR_REMOVE, Bound.UPPER)
        assert claim.assumptions == ()

    def test_is_immutable_and_hashable(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            make().epsilon = 2.0  # type: ignore[misc]
        assert len({make(), make(), make(epsilon=2)}) == 2

    def test_takes_keywords_only(self) -> None:
        with pytest.raises(TypeError):
            Guarantee(1.0, 1e-5)  # type: ignore[call-arg]

    @pytest.mark.parametrize("number", [1, np.float64(1), np.float32(1), np.int64(1)])
    def test_stores_plain_floats(self, number: Any) -> None:
        claim = make(epsilon=number)
        assert type(claim.epsilon) is float
        assert claim == make()

    @given(not_numbers)
    def test_refuses_what_is_no_number(self, value: Any) -> None:
        for field in ("epsilon", "delta"):
            with pytest.raises(InvalidArgument, match=rf"^{field}="):
                make(**{field: value})

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("epsilon", -1e-300),
            ("epsilon", -math.inf),
            ("epsilon", 10**400),
            ("delta", 1.0),
            ("delta", -1e-9),
            ("delta", math.inf),
            ("unit", "user"),
            ("unit", None),
            ("relation", "replace"),
            ("bound", "upper"),
            ("method", ""),
            ("method", "two\nlines"),
            ("method", "\x1b[31mred"),
            ("method", None),
            ("assumptions", "a sentence instead of a tuple of them"),
            ("assumptions", ["a list"]),
            ("assumptions", ("fine", 3)),
            ("assumptions", ("",)),
        ],
    )
    def test_refuses_what_is_out_of_range_or_of_the_wrong_type(self, field: str, value: Any) -> None:
        with pytest.raises(InvalidArgument, match=rf"^{field}="):
            make(**{field: value})

    def test_infinite_epsilon_is_no_promise_and_never_a_lower_bound(self) -> None:
        assert make(epsilon=math.inf).max_tpr(0.001) == 1
        assert make(epsilon=math.inf, bound=Bound.ESTIMATE).advantage() == 1
        with pytest.raises(InvalidArgument, match="infinite lower bound"):
            make(epsilon=math.inf, bound=Bound.LOWER)


class TestPrinting:
    @pytest.mark.parametrize(
        ("bound", "text"),
        [
            (Bound.UPPER, "epsilon <= 2.93, delta = 1.24e-05"),
            (Bound.LOWER, "epsilon >= 2.92, delta = 1.23e-05"),
            (Bound.ESTIMATE, "epsilon ~ 2.92, delta = 1.23e-05"),
        ],
    )
    def test_rounds_to_the_safe_side(self, bound: Bound, text: str) -> None:
        claim = make(epsilon=2.9211, delta=1.2344e-5, bound=bound, method="magic")
        assert str(claim) == f"{text} per example (add-or-remove), by magic"

    @pytest.mark.parametrize(
        ("epsilon", "delta", "text"),
        [
            (3, 1e-5, "epsilon <= 3, delta = 1e-05 "),
            (0.1, 1e-18, "epsilon <= 0.1, delta = 1e-18 "),
            (0, 0, "epsilon <= 0, delta = 0 "),
            (1000, 0.3, "epsilon <= 1000, delta = 0.3 "),
            (12345, 5e-324, "epsilon <= 12400, delta = 4.94e-324 "),
            (3e-7, 0.00012345, "epsilon <= 3e-07, delta = 0.000124 "),
            (math.inf, 1e-5, "unbounded epsilon, delta = 1e-05 "),
        ],
    )
    def test_short_numbers_stay_short_and_small_ones_visible(self, epsilon: float, delta: float, text: str) -> None:
        assert str(make(epsilon=epsilon, delta=delta)).startswith(text)

    @given(epsilons.filter(lambda epsilon: epsilon > 1e-300), deltas)
    def test_printed_bounds_enclose_the_value(self, epsilon: float, delta: float) -> None:
        def printed(bound: Bound) -> float:
            match = re.match(r"epsilon .= (\S+),", str(make(epsilon=epsilon, delta=delta, bound=bound)))
            assert match is not None
            return float(match[1])

        assert printed(Bound.LOWER) <= epsilon <= printed(Bound.UPPER)
        assert printed(Bound.UPPER) <= epsilon * 1.0101 + 1e-300

    @given(guarantees())
    def test_is_one_line(self, claim: Guarantee) -> None:
        assert len(str(claim).splitlines()) == 1


class TestGroups:
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
    @pytest.mark.parametrize("size", [2, 3, 7])
    def test_formula(self, epsilon: float, size: int) -> None:
        group = make(epsilon=epsilon, delta=1e-12).for_group(size)
        terms = sum(math.exp(i * epsilon) for i in range(size))
        assert group.epsilon == pytest.approx(size * epsilon, rel=1e-15)
        assert group.delta == pytest.approx(1e-12 * terms, rel=1e-11, abs=0)
        assert group.unit == Unit.example().group(size)

    def test_zero_epsilon_multiplies_delta(self) -> None:
        assert make(epsilon=0, delta=1e-5).for_group(10).delta == pytest.approx(1e-4)

    @given(guarantees(bounds=UPPER))
    def test_group_of_one_is_the_guarantee_itself(self, claim: Guarantee) -> None:
        assert claim.for_group(1) == claim

    @given(st.floats(0, 2), st.floats(1e-200, 1e-25), st.integers(1, 5), st.integers(1, 5))
    def test_groups_of_groups(self, epsilon: float, delta: float, inner: int, outer: int) -> None:
        claim = make(epsilon=epsilon, delta=delta)
        nested, direct = claim.for_group(inner).for_group(outer), claim.for_group(inner * outer)
        assert nested.unit == direct.unit
        assert nested.epsilon == pytest.approx(direct.epsilon, rel=1e-14, abs=1e-320)
        assert nested.delta == pytest.approx(direct.delta, rel=1e-10, abs=0)

    @given(epsilons, st.integers(1, 10**6))
    def test_epsilon_is_never_rounded_down(self, epsilon: float, size: int) -> None:
        group = make(epsilon=epsilon, delta=0).for_group(size)
        assert group.epsilon == math.inf or Fraction(group.epsilon) >= Fraction(epsilon) * size

    def test_refuses_a_group_to_which_nothing_is_promised_and_says_which_would_do(self) -> None:
        claim = make(epsilon=1, delta=1e-5)
        with pytest.raises(InvalidArgument, match=r"^size=13: expected at most 12\."):
            claim.for_group(13)
        assert claim.for_group(12).delta < 1

    def test_huge_groups_neither_overflow_nor_hang(self) -> None:
        assert make(epsilon=1e308, delta=0).for_group(1000).epsilon == math.inf
        assert make(epsilon=1000, delta=0).for_group(10**400).epsilon == math.inf
        for claim in (make(epsilon=1000), make(epsilon=0, delta=5e-324), make(epsilon=5e-324, delta=1e-300)):
            with pytest.raises(InvalidArgument, match="expected at most"):
                claim.for_group(2**1200)

    @pytest.mark.parametrize("bound", [Bound.LOWER, Bound.ESTIMATE])
    def test_only_a_proven_upper_bound_extends_to_groups(self, bound: Bound) -> None:
        with pytest.raises(Unsupported, match="upper bound only"):
            make(bound=bound).for_group(2)

    @pytest.mark.parametrize("size", [0, -1, 2.0, True, "2", None, math.nan])
    def test_refuses_sizes_that_are_no_counts(self, size: Any) -> None:
        with pytest.raises(InvalidArgument, match="^size="):
            make().for_group(size)


class TestLowerBoundsCapNothing:
    def test_refused(self) -> None:
        claim = make(bound=Bound.LOWER)
        with pytest.raises(Unsupported, match="caps no attack"):
            claim.max_tpr(0.01)
        with pytest.raises(Unsupported, match="caps no attack"):
            claim.advantage()

    @given(fractions)
    def test_but_they_move_beliefs(self, prior: float) -> None:
        assert make(bound=Bound.LOWER).posterior(prior) >= prior

"""The `Guarantee` value: an epsilon and a delta, with everything that gives them meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

from hush.errors import (
    InvalidArgument,
    Unsupported,
    check_count,
    check_delta,
    check_epsilon,
    check_fraction,
    check_instance,
)
from hush.guarantee import json_form, limits
from hush.guarantee.explanation import explain
from hush.guarantee.ledger_row import LedgerRow
from hush.guarantee.rounding import rounded
from hush.guarantee.terms import Bound, Relation
from hush.guarantee.trade_off import TradeOff
from hush.guarantee.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """How much a release reveals about one privacy unit, and how this was established.

    With `Bound.UPPER` it is (epsilon, delta) differential privacy of the mechanism M that made the release: for all
    neighbouring datasets D and D', as ``relation`` and ``unit`` define them, and for every set S of results,
    P[M(D) in S] <= e^epsilon * P[M(D') in S] + delta.

    >>> claim = Guarantee(epsilon=1, delta=1e-5, method="privacy loss distribution")
    >>> print(claim)
    epsilon <= 1, delta = 1e-05 per example (add-or-remove), by privacy loss distribution
    >>> round(claim.max_tpr(0.01), 5), round(claim.posterior(0.5), 3)
    (0.02719, 0.731)

    Attributes:
        epsilon: The claim, in [0, inf]. An infinite upper bound or estimate means that no finite epsilon is known; it
            promises nothing. A lower bound must be finite: infinity would be the strongest possible claim, and is
            usually an overflow.
        delta: The additive slack at which epsilon holds, in [0, 1).
        unit: The privacy unit.
        relation: How neighbouring datasets differ.
        bound: Which side of the true epsilon the claim is on.
        method: How epsilon was computed, in a few words, such as "privacy loss distribution".
        assumptions: The conditions that the claim depends on and that hush did not check, one sentence each.
        charged: The ledger row that paid for it, if any. Equal claims may have different rows.
    """

    epsilon: float
    delta: float
    unit: Unit = Unit.example()
    relation: Relation = Relation.ADD_OR_REMOVE
    bound: Bound = Bound.UPPER
    method: str = "the caller's statement"
    assumptions: tuple[str, ...] = ()
    charged: LedgerRow | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_instance("unit", self.unit, Unit, "Use Unit.example(), Unit.user() or Unit.user_window(length)")
        check_instance("relation", self.relation, Relation, "Use e.g. Relation.ADD_OR_REMOVE")
        check_instance("bound", self.bound, Bound, "Use e.g. Bound.UPPER")
        object.__setattr__(self, "epsilon", _check_claim(self.epsilon, self.bound))
        object.__setattr__(self, "delta", check_delta("delta", self.delta))
        _check_line("method", self.method)
        check_instance("assumptions", self.assumptions, tuple, "Pass a tuple of sentences, or () for none")
        for sentence in self.assumptions:
            _check_line("assumptions", sentence)

    def max_tpr(self, fpr: float) -> float:
        """Return the largest true positive rate of any membership test with false positive rate ``fpr``.

        The minimum of e^epsilon * fpr + delta and 1 - e^-epsilon * (1 - delta - fpr), the trade-off curve of
        (epsilon, delta) differential privacy (Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015, Section 2).
        """
        rate = check_fraction("fpr", fpr)
        self._require_cap("max_tpr")
        return limits.max_tpr(self.epsilon, self.delta, rate)

    def tradeoff(self) -> TradeOff:
        """Return `max_tpr` as a curve. An accountant's own `tradeoff`, which knows more than one pair, is tighter."""
        self._require_cap("tradeoff")
        return TradeOff(((self.epsilon, self.delta),))

    def posterior(self, prior: float) -> float:
        """Return the largest posterior probability of membership for an observer whose prior is ``prior``.

        Seeing the result multiplies the odds by at most e^epsilon. For delta = 0 this holds for every single result.
        For delta > 0 it ignores the slack: a result of probability below delta may reveal everything. For a lower
        bound, read "at least": some result moves the observer's belief this far, for or against membership.
        """
        return limits.posterior(self.epsilon, check_fraction("prior", prior))

    def advantage(self) -> float:
        """Return the largest TPR - FPR of any membership test: (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).

        This is the tight form (Humphries et al. 2023); Yeom et al. (2018) proved the looser e^epsilon - 1.
        """
        self._require_cap("advantage")
        return limits.advantage(self.epsilon, self.delta)

    def for_group(self, size: int) -> Guarantee:
        """Return the guarantee for any ``size`` units together, derived from epsilon and delta alone.

        Chaining the definition over ``size`` neighbours gives size * epsilon and delta * (e^(size epsilon) - 1) /
        (e^epsilon - 1), both rounded up: each step adds delta times the factors before it. An accountant that knows the
        mechanism gives a smaller epsilon; prefer it if you have one.
        """
        count = check_count("size", size)
        if self.bound is not Bound.UPPER:
            raise Unsupported(
                f"bound={self.bound.value}: group privacy extends a proven upper bound only",
                "Multiplying a lower bound or an estimate would claim something that was never shown",
            )
        delta = limits.group_delta(self.epsilon, self.delta, count)
        if not delta < 1:
            largest = limits.largest_group(self.epsilon, self.delta)
            raise InvalidArgument(
                "size", size, f"at most {largest}", "For a larger group delta reaches 1, which promises nothing"
            )
        epsilon = limits.group_epsilon(self.epsilon, count)
        return replace(self, epsilon=epsilon, delta=delta, unit=self.unit.group(count))

    def explain(self) -> str:
        """Return the guarantee in plain English: odds, belief, the best attack, risk, caveats and assumptions.

        Every figure is rounded so that its sentence stays true.
        """
        return explain(self)

    def to_json(self) -> str:
        """Return strict JSON (format ``hush.guarantee/3``) from which `from_json` restores an equal guarantee."""
        return json_form.dump(self)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """Restore a guarantee from what `to_json` wrote; refuse everything else."""
        return cls(**json_form.load(text))

    def __str__(self) -> str:
        sign = _SIGNS[self.bound]
        epsilon = (
            "unbounded epsilon" if self.epsilon == math.inf else f"epsilon {sign} {rounded(self.epsilon, self.bound)}"
        )
        delta = rounded(self.delta, self.bound)
        is_test = json_form.TEST_RANDOMNESS in self.assumptions
        claim = f"{epsilon}, delta = {delta} per {self.unit} ({self.relation.value}), by {self.method}"
        return f"NOT PRIVATE, {json_form.NOT_PRIVATE}: {claim}" if is_test else claim

    def _require_cap(self, what: str) -> None:
        """Refuse to limit an attack by a lower bound."""
        if self.bound is Bound.LOWER:
            raise Unsupported(
                f"{what} of a lower bound: a lower bound on epsilon caps no attack",
                "Use the upper bound of an accountant",
            )


_SIGNS = {Bound.UPPER: "<=", Bound.LOWER: ">=", Bound.ESTIMATE: "~"}


def _check_claim(epsilon: Any, bound: Bound) -> float:
    """Return epsilon, allowing infinity only where it claims nothing."""
    if isinstance(epsilon, Real) and epsilon == math.inf:
        if bound is Bound.LOWER:
            raise InvalidArgument(
                "epsilon", epsilon, "a finite number >= 0", "No attack proves an infinite lower bound"
            )
        return math.inf
    return check_epsilon("epsilon", epsilon)


def _check_line(name: str, text: Any) -> None:
    """Refuse text that would break the one-line summary or send control characters to a terminal."""
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise InvalidArgument(name, text, "non-empty text on one line, without control characters")

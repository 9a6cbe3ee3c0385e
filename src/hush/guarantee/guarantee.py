"""The `Guarantee` value: an epsilon and a delta, with everything that gives them meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

from hush.errors import (
    InvalidArgument,
    Unsupported,
    check_confidence,
    check_count,
    check_delta,
    check_epsilon,
    check_fraction,
    check_instance,
)
from hush.guarantee import json_form, limits
from hush.guarantee.explanation import explain, paragraphs
from hush.guarantee.generalization import Generalization, generalization
from hush.guarantee.ledger_row import LedgerRow
from hush.guarantee.rounding import rounded
from hush.guarantee.terms import Bound, Relation
from hush.guarantee.trade_off import TradeOff
from hush.guarantee.unit import Unit, UnitKind
from hush.notebook import card, short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """How much a release reveals about one privacy unit, and how this was established.

    With `Bound.UPPER` it is (epsilon, delta) differential privacy of the mechanism M that made the release: for all
    neighbouring datasets D and D', as ``relation`` and ``unit`` define them, and for every set S of results,
    P[M(D) in S] <= e^epsilon * P[M(D') in S] + delta.

    Delta is not the failure probability of epsilon: the loss of Gaussian noise exceeds epsilon more often than that,
    though hardly ever by much.

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

        This is the hypothesis-testing reading: an observer tests "without you" against "with you". At significance
        level ``fpr`` no test has more power than this, so fpr + e^epsilon fnr >= 1 - delta, and likewise the other way.
        It is the minimum of e^epsilon * fpr + delta and 1 - e^-epsilon * (1 - delta - fpr), the trade-off curve of
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

        This is the Bayesian reading. Seeing the result multiplies the odds by at most e^epsilon. For delta = 0 this
        holds for every single result. For delta > 0 it ignores the slack: a result of probability below delta may
        reveal everything. For a lower bound, read "at least": some result moves the observer's belief this far, for or
        against membership.
        """
        return limits.posterior(self.epsilon, check_fraction("prior", prior))

    def advantage(self) -> float:
        """Return the largest TPR - FPR of any membership test: (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).

        This is the tight form (Humphries et al. 2023); Yeom et al. (2018) proved the looser e^epsilon - 1. It is also
        the largest statistical distance (total variation) between releases from neighbouring datasets. For delta = 0 it
        is tanh(epsilon / 2), at most epsilon / 2. It then also bounds the distance between what an observer believes
        after a release with your data and after one without, which Kasiviswanathan & Smith (2014) bound by
        e^epsilon - 1 and lecture notes by 2 epsilon: both likelihoods differ by at most e^epsilon, so the posteriors'
        ratio is within a factor e^(2 epsilon) in all, and tanh(2 epsilon / 4) is the distance.
        """
        self._require_cap("advantage")
        return limits.advantage(self.epsilon, self.delta)

    def for_group(self, size: int) -> Guarantee:
        """Return the guarantee for any ``size`` units together, derived from epsilon and delta alone.

        Chaining the definition over ``size`` neighbours gives size * epsilon and delta * (e^(size epsilon) - 1) /
        (e^epsilon - 1), both rounded up: each step adds delta times the factors before it. An accountant that knows the
        mechanism gives a smaller epsilon; prefer it if you have one. Known as group privacy.
        """
        count = check_count("size", size)
        self._require_upper("group privacy extends a proven upper bound only")
        delta = limits.group_delta(self.epsilon, self.delta, count)
        if not delta < 1:
            largest = limits.largest_group(self.epsilon, self.delta)
            raise InvalidArgument(
                "size", size, f"at most {largest}", "For a larger group delta reaches 1, which promises nothing"
            )
        epsilon = limits.group_epsilon(self.epsilon, count)
        return replace(self, epsilon=epsilon, delta=delta, unit=self.unit.group(count))

    def generalization(self, num_records: int, *, confidence: float = 0.95, num_queries: int = 1) -> Generalization:
        """Return bounds on how far what was found in the data can be from the population that they come from.

        A release that hardly depends on any record does not overfit the records. This is about any queries that were
        chosen by looking at the release, such as the loss of a trained model: each is a function of one record with
        values in [0, 1]. The gap is its mean over the data, less its mean over the population.

        >>> print(Guarantee(epsilon=1.0, delta=1e-6, relation=Relation.REPLACE).generalization(1_000_000))
        on average at most 0.463 from the population (stability on average); at most 0.469 with confidence 0.95, by \
posterior sensitivity (Jung et al. 2020)

        Args:
            num_records: The number of units in the data.
            confidence: The confidence of the bound on all gaps together.
            num_queries: The number of queries.

        Guarantee:
            For delta = 0 the mean gap is at most tanh(epsilon / 4): the largest difference between a posterior and its
            prior. For delta > 0 it is at most `advantage`. Add-or-remove and zero-out are first converted: a
            replacement is two changes. The other bound holds with the stated confidence.

        Assumes:
            The units are drawn independently from the population (the caller's duty). The claim is an upper bound, and
            is not for windows of a user, which are not independent (checked here).

        References:
            Bousquet & Elisseeff 2002, Lemma 7 (stability on average is generalisation in expectation). Dwork et al.
            2015, Theorem 20 (max-information, delta = 0). Jung et al. 2020, Theorem 3.5, with a smaller constant (see
            `hush.guarantee.generalization`) and an answer that is only imagined. Where both apply, the smaller one is
            returned. e^epsilon - 1 (Dwork et al. 2015) and 18 epsilon (Bassily et al. 2016) are larger.
        """
        self._require_upper("generalization follows from a proven upper bound only")
        if self.unit.kind is UnitKind.USER_WINDOW:
            raise Unsupported(
                f"generalization per {self.unit}: windows of one user are not independent draws from a population",
                "State the guarantee per user",
            )
        size = 1 if self.relation is Relation.REPLACE else 2
        epsilon, delta = limits.group_epsilon(self.epsilon, size), limits.group_delta(self.epsilon, self.delta, size)
        return generalization(
            epsilon,
            min(delta, 1.0),
            check_count("num_records", num_records),
            _check_queries(num_queries),
            check_confidence("confidence", confidence),
        )

    def poisoned(self, probability: float, num_changes: int) -> tuple[float, float]:
        """Return the range of a probability after an attacker has changed ``num_changes`` units of the data.

        It bounds the expectation of any score in [0, 1], too, such as an attacker's loss or a class's share of votes.
        This limits data poisoning.

        >>> low, high = Guarantee(epsilon=0.1, delta=0).poisoned(0.9, 5)
        >>> round(low, 3), round(high, 3)
        (0.835, 0.939)

        Args:
            probability: The probability, or expected score in [0, 1], on the data without the changes.
            num_changes: The number of changes, as ``relation`` defines them. To replace a record is two changes under
                add-or-remove and zero-out.

        References:
            Ma, Zhu & Hsu 2019, Theorem 4 (the cost of an attack, from below); group privacy for the other side, and
            for the complement, which is tighter for probabilities above a half.
        """
        self._require_upper("robustness to poisoning follows from a proven upper bound only")
        rate = check_fraction("probability", probability)
        count = check_count("num_changes", num_changes, minimum=0)
        return limits.poisoned(self.epsilon, self.delta, rate, count) if count else (rate, rate)

    def most_poisons(self, lower: float, upper: float) -> int:
        """Return how many changes of the data cannot make a more likely result the less likely one; at most 10^12.

        For a prediction by a random release, such as a privately trained model: no attacker who poisons this many
        units can make another class the most likely one.

        >>> Guarantee(epsilon=0.1, delta=1e-6).most_poisons(lower=0.9, upper=0.1)
        16

        Args:
            lower: A lower bound on the probability, or expected score, of the most likely result.
            upper: An upper bound on that of every other result.

        References:
            Lecuyer et al. 2019, Proposition 1, with records in the place of pixels; Ma, Zhu & Hsu 2019.
        """
        self._require_upper("robustness to poisoning follows from a proven upper bound only")
        bounds = check_fraction("lower", lower), check_fraction("upper", upper)
        return limits.most_poisons(self.epsilon, self.delta, *bounds)

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

    def __repr__(self) -> str:
        """Return one line. `to_json` writes everything."""
        values: dict[str, object] = {"epsilon": self.epsilon, "delta": self.delta, "unit": str(self.unit)}
        values |= {"relation": self.relation.value, "bound": self.bound.value, "method": self.method}
        if self.assumptions:
            values["assumptions"] = len(self.assumptions)
        if json_form.TEST_RANDOMNESS in self.assumptions:
            values["not_private"] = json_form.NOT_PRIVATE
        return short_repr("Guarantee", values)

    def _repr_html_(self) -> str:
        """Return the guarantee for a notebook, in plain words."""
        charged = None if self.charged is None else f"{self.charged.budget} (row {self.charged.row} of its ledger)"
        return card(str(self), {"charged to": charged}, notes=paragraphs(self))

    def _require_upper(self, reason: str) -> None:
        """Refuse to derive a promise from a lower bound or an estimate."""
        if self.bound is not Bound.UPPER:
            raise Unsupported(
                f"bound={self.bound.value}: {reason}",
                "Anything else would claim something that was never shown",
            )

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


def _check_queries(num_queries: Any) -> int:
    """Return a number of queries whose share of a probability is still a float."""
    if not check_count("num_queries", num_queries) <= 10**18:
        raise InvalidArgument("num_queries", num_queries, "at most 10^18")
    return int(num_queries)


def _check_line(name: str, text: Any) -> None:
    """Refuse text that would break the one-line summary or send control characters to a terminal."""
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise InvalidArgument(name, text, "non-empty text on one line, without control characters")

"""The result of an audit: a lower bound on epsilon, its confidence, and how it compares with a claim.

Every audit of `hush.audit` ends here, whatever attack and method it used. Results are immutable, print as one line,
become strict JSON, and turn into a `Guarantee` whose bound is "lower".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from hush.errors import InvalidArgument, Unsupported, check_delta, check_epsilon, check_instance
from hush.guarantee import Bound, Guarantee, Relation, Unit
from hush.notebook import card, short_repr

FORMAT = "hush.audit/1"
_UNBOUNDED = "unbounded"
_NONE: Mapping[str, Any] = MappingProxyType({})


class Verdict(StrEnum):
    """The verdict of an audit on a claim.

    >>> from hush.audit import epsilon_from_counts
    >>> epsilon_from_counts(90, 100, 10, 100).compare(0.1).verdict is Verdict.VIOLATED
    True
    """

    CONSISTENT = "consistent"
    """The attack did not contradict the claim. That does not prove the claim: a stronger attack might."""

    VIOLATED = "violated"
    """The claim is wrong, up to the audit's confidence and assumptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of comparing an audit with a claim, from `AuditResult.compare`.

    >>> from hush.audit import epsilon_from_counts
    >>> print(epsilon_from_counts(90, 100, 10, 100).compare(1.0))
    Violated: the attack shows epsilon >= 1.54 at delta = 0 (95 %), more than the claimed 1 at delta = 0.

    Attributes:
        verdict: `Verdict.CONSISTENT` or `Verdict.VIOLATED`.
        sentence: The verdict in words.
        claimed: The claim that was compared.
        epsilon_lower: The audit's lower bound.
        confidence: The confidence of that bound.
    """

    verdict: Verdict
    sentence: str
    claimed: Guarantee
    epsilon_lower: float
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the claim is contradicted."""
        return self.verdict is Verdict.VIOLATED

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """A lower bound on epsilon, demonstrated by an attack.

    With probability ``confidence`` over the audit's randomness, ``epsilon_lower`` is at most the true epsilon at
    ``delta``. Chosen thresholds, chosen directions and repeated trials are corrected for. A result whose bound is
    "estimate" makes no such promise; its assumptions say what holds instead.

    >>> from hush.audit import epsilon_from_counts
    >>> result = epsilon_from_counts(tp=90, num_in=100, fp=10, num_out=100)
    >>> print(result)
    epsilon >= 1.54 at delta = 0 (95 % confidence; point estimate 2.2), by Clopper-Pearson, a test fixed beforehand,
    100 members and 100 non-members
    >>> result.compare(3.0).violated
    False

    Attributes:
        epsilon: The point estimate: the bound if the observed rates were exact. It may be infinite.
        epsilon_lower: The lower bound, finite and never negative.
        confidence: The confidence of the bound.
        method: The method in a few words.
        threshold_rule: How the threshold was chosen, in a few words.
        num_in: The number of members whose scores the bound used.
        num_out: The number of non-members whose scores the bound used.
        delta: The delta at which epsilon is bounded.
        mu_lower: A lower bound on mu of Gaussian differential privacy, if the method has one.
        details: The numbers behind the bound: counts, the threshold, the number of trials corrected for.
        assumptions: Conditions that must hold and were not checked, one sentence each.
        bound: `Bound.LOWER`, or `Bound.ESTIMATE` if this is not a confidence bound.
        unit: The privacy unit in which the audit's two datasets differ.
        relation: The neighbouring relation between them.
    """

    epsilon: float
    epsilon_lower: float
    confidence: float
    method: str
    threshold_rule: str
    num_in: int
    num_out: int
    delta: float
    mu_lower: float | None = None
    details: Mapping[str, float | int | str] = field(default_factory=lambda: _NONE)
    assumptions: tuple[str, ...] = ()
    bound: Bound = Bound.LOWER
    unit: Unit = Unit.example()
    relation: Relation = Relation.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        check_instance("bound", self.bound, Bound)
        if self.bound is Bound.UPPER:
            raise InvalidArgument("bound", self.bound.value, "lower or estimate", "An attack cannot cap epsilon")
        # The point estimate is infinite if the attack made no mistakes.
        if self.epsilon != math.inf:
            check_epsilon("epsilon", self.epsilon)
        check_epsilon("epsilon_lower", self.epsilon_lower)
        check_confidence(self.confidence)
        check_delta("delta", self.delta)
        # A copy behind a read-only view: a result must not change with the caller's dictionary.
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))

    @property
    def guarantee(self) -> Guarantee:
        """The bound as a `Guarantee`, as hush states every claim."""
        return Guarantee(
            epsilon=self.epsilon_lower,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            bound=self.bound,
            method=f"audit ({self.method}; {self.threshold_rule})",
            assumptions=(*self.assumptions, self._confidence_sentence),
        )

    @property
    def _confidence_sentence(self) -> str:
        kind = "confidence" if self.bound is Bound.LOWER else "credibility, not confidence"
        return f"The bound is statistical: it has {100 * self.confidence:g} % {kind}"

    def compare(self, claimed: Guarantee | float) -> Comparison:
        """Say whether a claim is consistent with this audit.

        A claim at a smaller delta implies the same epsilon at the audit's delta, so the two can be compared. A claim at
        a larger delta cannot be compared.

        Args:
            claimed: A `Guarantee`, or an epsilon, which is taken at the delta, unit and relation of this audit.

        Returns:
            The verdict, with a sentence that you can print.

        Raises:
            Unsupported: The claim is not comparable with this audit, or this result is not a confidence bound.
        """
        claim = self._claim(claimed)
        self._require_comparable(claim)
        # A claim at a smaller delta implies the same epsilon at the audit's delta, so epsilons compare directly.
        violated = self.epsilon_lower > claim.epsilon
        verdict = Verdict.VIOLATED if violated else Verdict.CONSISTENT
        return Comparison(
            verdict=verdict,
            sentence=self._sentence(claim, violated),
            claimed=claim,
            epsilon_lower=self.epsilon_lower,
            confidence=self.confidence,
        )

    def to_json(self) -> str:
        """Return strict JSON (format ``hush.audit/1``). An infinite number is written as "unbounded"."""
        document = {
            "format": FORMAT,
            "epsilon": _plain(self.epsilon),
            "epsilon_lower": self.epsilon_lower,
            "confidence": self.confidence,
            "method": self.method,
            "threshold_rule": self.threshold_rule,
            "num_in": self.num_in,
            "num_out": self.num_out,
            "delta": self.delta,
            "mu_lower": self.mu_lower,
            "details": {name: _plain(value) for name, value in self.details.items()},
            "assumptions": list(self.assumptions),
            "bound": self.bound.value,
            "unit": self.unit.name,
            "relation": self.relation.value,
        }
        return json.dumps(document, allow_nan=False)

    def __str__(self) -> str:
        sign = ">=" if self.bound is Bound.LOWER else "~"
        kind = "confidence" if self.bound is Bound.LOWER else "credibility"
        return (
            f"epsilon {sign} {floored(self.epsilon_lower)} at delta = {self.delta:g} "
            f"({100 * self.confidence:g} % {kind}; point estimate {self.epsilon:.3g}), "
            f"by {self.method}, {self.threshold_rule}, {self.num_in} members and {self.num_out} non-members"
        )

    def __repr__(self) -> str:
        """Return one line. `to_json` writes everything."""
        values = {"epsilon_lower": self.epsilon_lower, "epsilon": self.epsilon, "delta": self.delta}
        return short_repr("AuditResult", {**values, "confidence": self.confidence, "method": self.method})

    def _repr_html_(self) -> str:
        """Return the audit for a notebook."""
        facts = {
            "what it shows": str(self),
            "protected unit": str(self.unit),
            "neighbouring datasets": self.relation.value,
            "threshold": self.threshold_rule,
        }
        title = "A proven loss of privacy" if self.epsilon_lower > 0 else "The attack proved no loss of privacy"
        return card(
            title if self.bound is Bound.LOWER else "An estimate of the loss of privacy",
            facts
            | {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in self.details.items()},
            notes=["An attack can only show that privacy is lost: a stronger one might show more.", *self.assumptions],
        )

    def _claim(self, claimed: Guarantee | float) -> Guarantee:
        if isinstance(claimed, Guarantee):
            return claimed
        return Guarantee(epsilon=claimed, delta=self.delta, unit=self.unit, relation=self.relation)

    def _require_comparable(self, claim: Guarantee) -> None:
        if self.bound is not Bound.LOWER:
            raise Unsupported(
                "compare: this result is not a confidence bound", "Audit with method=ClopperPearson() to compare"
            )
        # "At least 2" and "at least 1" can both be true.
        if claim.bound is Bound.LOWER:
            raise Unsupported("compare: two lower bounds cannot contradict each other", "Pass the accountant's claim")
        # An epsilon for a user and one for an example do not bound each other.
        if claim.unit != self.unit:
            raise Unsupported(f"compare: the claim is per {claim.unit}, the audit per {self.unit}")
        if claim.relation is not self.relation:
            raise Unsupported(
                f"compare: the claim is about {claim.relation.value}, the audit about {self.relation.value}",
                "Their epsilons differ by up to a factor of two",
            )
        if claim.delta > self.delta:
            raise Unsupported(
                f"compare: the claim's delta {claim.delta:g} exceeds the audit's {self.delta:g}",
                "Audit at the claim's delta",
            )

    def _sentence(self, claim: Guarantee, violated: bool) -> str:
        shown_digits, claimed_digits = _format_pair(self.epsilon_lower, claim.epsilon)
        shown_text = f"epsilon >= {shown_digits} at delta = {self.delta:g} ({100 * self.confidence:g} %)"
        claim_text = f"{claimed_digits} at delta = {claim.delta:g}"
        if violated:
            return f"Violated: the attack shows {shown_text}, more than the claimed {claim_text}."
        return (
            f"Consistent: the attack shows {shown_text}, no more than the claimed {claim_text}; "
            "a stronger attack might show more."
        )


def check_confidence(confidence: Any) -> float:
    """Return a confidence as a float if it is in (0, 1)."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise InvalidArgument("confidence", confidence, "a number in (0, 1)", "0.95 is usual")
    return float(confidence)


def floored(value: float, digits: int = 3) -> str:
    """Format a lower bound with a number of significant digits, rounded down."""
    exact = Decimal(repr(float(value)))  # the shortest decimal that is the float, so that 0.3 stays 0.3
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(step, rounding=ROUND_FLOOR)):.{digits}g}" if exact else "0"


def _format_pair(shown: float, claimed: float) -> tuple[str, str]:
    """Format two epsilons with the fewest digits, at least three, that compare as the numbers themselves do."""
    for digits in range(3, 18):
        shown_digits, claimed_digits = floored(shown, digits), f"{claimed:.{digits}g}"
        if (float(shown_digits) > float(claimed_digits)) is (shown > claimed):
            break
    return shown_digits, claimed_digits


def _plain(value: float | int | str) -> float | int | str:
    """Replace an infinite number by a word, as strict JSON has none."""
    if isinstance(value, float) and math.isinf(value):
        return _UNBOUNDED if value > 0 else f"-{_UNBOUNDED}"
    return value

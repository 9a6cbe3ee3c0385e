"""What an audit returns: a number that was shown, the confidence it has, and how it compares with a claim."""

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

SCHEMA = "hush.audit/1"
_UNBOUNDED = "unbounded"
_NONE: Mapping[str, Any] = MappingProxyType({})


class Verdict(StrEnum):
    """What an audit says of a claim."""

    CONSISTENT = "consistent"
    """The attack was not strong enough to contradict the claim. This proves nothing in its favour."""

    VIOLATED = "violated"
    """The claim is wrong, up to the audit's confidence and assumptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An audit beside a claim.

    Attributes:
        verdict: Consistent or violated.
        sentence: The same in words.
        claimed: The claim that was looked at.
        epsilon_lower: What the audit showed.
        confidence: How sure it is.
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
    """What an attack showed about epsilon.

    With probability ``confidence`` over the audit's own randomness, ``epsilon_lower`` is at most the true epsilon at
    ``delta``: thresholds, directions and repeated trials are corrected for. A result of bound "estimate" has no such
    promise; its assumptions say what it has instead.

    Attributes:
        epsilon: The point estimate: what the attack would show if observed rates were exact. May be infinite.
        epsilon_lower: The bound, finite and never negative.
        confidence: Of the bound.
        method: How the bound was found, in a few words.
        threshold_rule: How the threshold was chosen, in a few words.
        num_in: Scores of members that the bound is from.
        num_out: Scores of non-members that the bound is from.
        delta: At which epsilon is meant.
        mu_lower: The bound on the parameter of Gaussian differential privacy, for the methods that find one.
        details: Numbers that the bound follows from: counts, the threshold, the number of trials corrected for.
        assumptions: What must be true and was not checked: one sentence each.
        bound: `Bound.LOWER`, or `Bound.ESTIMATE` for what is no confidence bound.
        unit: What the attack's two worlds differ in.
        relation: How they differ.
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
            raise InvalidArgument("bound", self.bound.value, "lower or estimate", "No attack caps epsilon")
        if self.epsilon != math.inf:
            check_epsilon("epsilon", self.epsilon)
        check_epsilon("epsilon_lower", self.epsilon_lower)
        check_confidence(self.confidence)
        check_delta("delta", self.delta)
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))

    @property
    def guarantee(self) -> Guarantee:
        """The bound in the form that every claim of hush has."""
        return Guarantee(
            epsilon=self.epsilon_lower,
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            bound=self.bound,
            method=f"audit ({self.method}; {self.threshold_rule})",
            assumptions=(*self.assumptions, self._chance),
        )

    @property
    def _chance(self) -> str:
        kind = "confidence" if self.bound is Bound.LOWER else "credibility, not confidence"
        return f"The bound is statistical: it has {100 * self.confidence:g} % {kind}"

    def compare(self, claimed: Guarantee | float) -> Comparison:
        """Say whether a claim is consistent with what was shown.

        A claim at a smaller delta than the audit's implies the same epsilon at the audit's, so it can be compared; one
        at a larger delta cannot. A number is a claim about this audit's own delta, unit and relation.

        Raises:
            Unsupported: The claim is about something else, or this result is no confidence bound.
        """
        claim = self._claim(claimed)
        self._require_comparable(claim)
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
        """Return strict JSON (schema ``hush.audit/1``); an infinite number is written as "unbounded"."""
        document = {
            "schema": SCHEMA,
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
            "unit": str(self.unit),
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

    def _claim(self, claimed: Guarantee | float) -> Guarantee:
        if isinstance(claimed, Guarantee):
            return claimed
        return Guarantee(epsilon=claimed, delta=self.delta, unit=self.unit, relation=self.relation)

    def _require_comparable(self, claim: Guarantee) -> None:
        if self.bound is not Bound.LOWER:
            raise Unsupported("compare: this result is no confidence bound", "Audit with ClopperPearson() to compare")
        if claim.bound is Bound.LOWER:
            raise Unsupported("compare: two lower bounds cannot contradict each other", "Pass the accountant's claim")
        if claim.unit != self.unit:
            raise Unsupported(f"compare: the claim is per {claim.unit}, the audit per {self.unit}")
        if claim.relation is not self.relation:
            raise Unsupported(
                f"compare: the claim is about {claim.relation.value}, the audit about {self.relation.value}",
                "Their epsilons differ by up to a factor of two",
            )
        if claim.delta > self.delta:
            raise Unsupported(
                f"compare: the claim's delta {claim.delta:g} exceeds the audit's {self.delta:g}, where it says nothing",
                "Audit at the claim's delta",
            )

    def _sentence(self, claim: Guarantee, violated: bool) -> str:
        low, high = _told_apart(self.epsilon_lower, claim.epsilon)
        shown = f"epsilon >= {low} at delta = {self.delta:g} ({100 * self.confidence:g} %)"
        said = f"{high} at delta = {claim.delta:g}"
        if violated:
            return f"Violated: the attack shows {shown}, more than the claimed {said}."
        return f"Consistent: the attack shows {shown}, no more than the claimed {said}; a stronger one might."


def check_confidence(confidence: Any) -> float:
    """Return a confidence as a float if it is in (0, 1)."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise InvalidArgument("confidence", confidence, "a number in (0, 1)", "0.95 is usual")
    return float(confidence)


def floored(value: float, digits: int = 3) -> str:
    """Write a lower bound with so many digits, never more than it is."""
    exact = Decimal(repr(float(value)))
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(step, rounding=ROUND_FLOOR)):.{digits}g}" if exact else "0"


def _told_apart(shown: float, claimed: float) -> tuple[str, str]:
    """Write both with three digits, or as many more as it takes for what is read to be what is."""
    for digits in range(3, 18):
        low, high = floored(shown, digits), f"{claimed:.{digits}g}"
        if (float(low) > float(high)) is (shown > claimed):
            break
    return low, high


def _plain(value: float | int | str) -> float | int | str:
    if isinstance(value, float) and math.isinf(value):
        return _UNBOUNDED if value > 0 else f"-{_UNBOUNDED}"
    return value

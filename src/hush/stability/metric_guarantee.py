"""The guarantee of metric privacy: how well a value is hidden among others depends on their distance.

It is a type of its own. `hush.Guarantee`, accountants, filters and ledgers are about units that are added, removed or
replaced, whatever they hold; none of them accepts it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.errors import InvalidArgument, Unsupported, check_epsilon, check_instance, check_positive
from hush.guarantee import Guarantee, Relation, Unit
from hush.numerics import round_up
from hush.randomness import TEST_RANDOMNESS


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGuarantee:
    """Metric privacy (d-privacy): P[M(x) in S] <= e^(epsilon_per_unit (d(x, y) + resolution)) P[M(y) in S].

    Values that are close are hidden among each other, and values far apart are not. For locations this is
    geo-indistinguishability. Read the other way, it is individual fairness: decisions based on the release alone treat
    people alike who are alike in the metric (`max_difference`).

    >>> claim = MetricGuarantee(epsilon_per_unit=0.01, metric="Euclidean distance", unit="m")
    >>> print(claim)
    metric privacy: epsilon <= 0.01 per m of Euclidean distance
    >>> round(math.exp(claim.loss(200)), 3), round(claim.max_difference(20), 3)
    (7.389, 0.1)

    Attributes:
        epsilon_per_unit: The factor's logarithm per unit of distance.
        metric: The metric, in words.
        unit: The unit of distance, in words.
        resolution: What rounding adds to every distance.
        assumptions: The conditions that hush did not check, one sentence each.
    """

    epsilon_per_unit: float
    metric: str
    unit: str = "unit"
    resolution: float = 0.0
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_positive("epsilon_per_unit", self.epsilon_per_unit)
        check_epsilon("resolution", self.resolution)
        for name in ("metric", "unit"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip() or not text.isprintable():
                raise InvalidArgument(name, text, "non-empty text on one line")
        check_instance("assumptions", self.assumptions, tuple)

    def loss(self, distance: float) -> float:
        """Return the largest logarithm of the factor for two values at this distance: an epsilon for them alone."""
        return round_up(self.epsilon_per_unit * round_up(check_epsilon("distance", distance) + self.resolution))

    def max_difference(self, distance: float) -> float:
        """Return how far apart the probabilities of any decision can be for two people at this distance.

        This is individual fairness (Dwork, Hardt, Pitassi, Reingold & Zemel 2012) with the Lipschitz constant
        epsilon_per_unit / 2 in statistical distance: tanh(loss / 2).
        """
        return min(round_up(math.tanh(self.loss(distance) / 2)), 1.0)

    def compose(self, other: MetricGuarantee) -> MetricGuarantee:
        """Return the guarantee of two releases of the same values: epsilons per unit add up."""
        check_instance("other", other, MetricGuarantee, "Guarantees of other kinds do not add up with this one")
        if (self.metric, self.unit) != (other.metric, other.unit):
            raise Unsupported(
                f"composition of {self.metric} in {self.unit} with {other.metric} in {other.unit}",
                "Distances in two metrics do not add up",
            )
        return MetricGuarantee(
            epsilon_per_unit=round_up(self.epsilon_per_unit + other.epsilon_per_unit),
            metric=self.metric,
            unit=self.unit,
            resolution=max(self.resolution, other.resolution),
            assumptions=tuple(dict.fromkeys((*self.assumptions, *other.assumptions))),
        )

    def within(self, diameter: float) -> Guarantee:
        """Return the ordinary guarantee of one report, for values that are at most ``diameter`` apart.

        This is local differential privacy: the value is replaced by any other of them.
        """
        apart = f"all values are at most {check_positive('diameter', diameter):.6g} {self.unit} apart"
        return Guarantee(
            epsilon=self.loss(diameter),
            delta=0.0,
            unit=Unit.example(),
            relation=Relation.REPLACE,
            method="metric privacy within a diameter",
            assumptions=(*self.assumptions, apart),
        )

    def __str__(self) -> str:
        claim = f"metric privacy: epsilon <= {self.epsilon_per_unit!r} per {self.unit} of {self.metric}"
        return f"NOT PRIVATE, made with test randomness: {claim}" if TEST_RANDOMNESS in self.assumptions else claim

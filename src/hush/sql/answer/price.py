"""The requested cost of a query (`PriceRequest`) and its actual cost (`QueryPrice`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hush.accounting import ApproximateDPEvent, Event
from hush.errors import InvalidArgument, check_delta, check_fraction, check_positive
from hush.guarantee import Guarantee, Unit
from hush.notebook import card, short_repr
from hush.sql.answer.accuracy import solve_epsilon
from hush.sql.answer.choices.chooser import ChoicesPlan, plan_choices
from hush.sql.answer.choices.limits import Measure
from hush.sql.answer.priced_query import PricedQuery, price_query
from hush.sql.syntax.expression import Expr
from hush.sql.write.plan import QueryPlan
from hush.statistics import LaplaceNoise, Selection, TruncatedGeometric
from hush.statistics.noise import NoiseKind


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPrice:
    """The cost of a query, and the noise of its answer. It is computed without reading data.

    Attributes:
        guarantee: The guarantee of the answer.
        event: The same for accountants and budgets.
        noise: The kind of noise.
        scales: The noise scale of each released number, in units of the data, by a description of the number.
        errors: With ``expected``: about half the width of each column's interval in a group of that many rows, by
            column. For averages, variances and quantiles, it assumes values that are spread evenly over their bounds.
        limits: The limits and bounds that are known, and what has to be chosen first, in words.

    >>> import duckdb, hush
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people (who BIGINT)")
    >>> people = hush.table(connection, name="people", unit="who")
    >>> price = people.price("SELECT COUNT(*) AS n FROM people", epsilon=0.5, rows_per_unit=1, expected=1_000)
    >>> price.noise, price.scales, price.errors
    ('Laplace', {'rows for n': 2.0...}, {'n': 6.0})
    """

    guarantee: Guarantee
    event: Event
    noise: str
    scales: Mapping[str, float]
    errors: Mapping[str, float] = field(default_factory=dict)
    limits: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return one line: the cost and the noise."""
        cost = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        return short_repr("QueryPrice", {**cost, "noise": self.noise, "scales": dict(self.scales)})

    def _repr_html_(self) -> str:
        """Return the price for a notebook."""
        rows = [(name, f"{scale:.4g}") for name, scale in self.scales.items()]
        facts = {f"half the interval of {name}": f"about {error:.4g}" for name, error in self.errors.items()}
        head = (f"{self.noise} noise on", "scale") if rows else ()
        return card("The price of this query", facts, head=head, rows=rows, notes=[*self.limits, str(self.guarantee)])


@dataclass(frozen=True, slots=True)
class PriceRequest:
    """The requested cost or accuracy of an answer, from the arguments of `Table.sql`."""

    epsilon: float | None
    delta: float
    noise: NoiseKind | None
    selection: Selection | None
    accuracy: float | None
    expected: float | None
    confidence: float

    def check(self, *, allow_expected: bool) -> None:
        """Refuse arguments that are out of range or do not go together.

        Args:
            allow_expected: Whether ``expected`` may be given without ``accuracy``.
        """
        check_delta("delta", self.delta)
        if not 0 < check_fraction("confidence", self.confidence, "For example 0.95 for 95 %") < 1:
            raise InvalidArgument("confidence", self.confidence, "a number in (0, 1)", "For example 0.95 for 95 %")
        if self.accuracy is not None:
            if self.epsilon is not None:
                raise InvalidArgument(
                    "accuracy", self.accuracy, "None with epsilon=", "Give epsilon= or accuracy=, not both"
                )
            return
        if self.epsilon is None:
            raise InvalidArgument("epsilon", None, "a finite number > 0", "Give epsilon=, or accuracy= and expected=")
        check_positive("epsilon", self.epsilon)
        if self.expected is not None and not allow_expected:
            raise InvalidArgument(
                "expected", self.expected, "None without accuracy=", "Leave it out, or give accuracy="
            )
        if self.expected is not None:
            check_positive("expected", self.expected)

    def known_epsilon(self) -> float:
        """Return epsilon.

        Limits cannot be chosen if epsilon follows from an accuracy, since accuracy depends on limits and bounds.
        """
        if self.epsilon is None:
            raise InvalidArgument(
                "accuracy",
                self.accuracy,
                "None, because hush has to choose limits or bounds for this query",
                "How accurate an answer is depends on the limits and bounds",
                "Give rows_per_unit= and groups_per_unit=, or epsilon=",
                "Declare the bounds of all columns that are summed",
            )
        return float(self.epsilon)

    def split(
        self, measures: tuple[Measure, ...], columns: Mapping[Expr, str], share: float
    ) -> tuple[ChoicesPlan, PriceRequest]:
        """Return how limits and bounds are chosen on a share of epsilon, and what is left for the answer.

        Args:
            measures: The properties by which units are counted, to choose limits.
            columns: The names of the columns whose bounds have to be learned.
            share: The share of epsilon.
        """
        if not 0 < check_fraction("limits_share", share, "For example 0.1") < 1:
            raise InvalidArgument("limits_share", share, "a number in (0, 1)", "For example 0.1")
        epsilon = self.known_epsilon()
        return plan_choices(measures, columns, share * epsilon), replace(self, epsilon=(1 - share) * epsilon)

    def allows_gaussian(self) -> bool:
        """Return whether the noise may be Gaussian."""
        return self.delta > 0 and not isinstance(self.noise, LaplaceNoise)

    def groups_allowed(self, plan: QueryPlan) -> int | None:
        """Return the most groups of a unit that delta can cover where they are selected privately; None if any."""
        if plan.public_keys or not plan.keys or not self.delta:
            return None
        delta = self.delta if isinstance(self.noise, LaplaceNoise) else self.delta / 2  # the noise may take the rest
        groups = (self.selection or TruncatedGeometric()).most_groups(delta)
        return max(groups // max(len(plan.sets), 1), 1)

    def bound(self) -> Event:
        """Return an event that bounds the cost of any answer at this epsilon and delta."""
        return ApproximateDPEvent(self.known_epsilon(), self.delta)

    def price(self, plan: QueryPlan, unit: Unit) -> PricedQuery:
        """Return the plan with its noise."""

        def price_at(epsilon: float) -> PricedQuery:
            """Return the priced query at an epsilon."""
            return price_query(plan, epsilon, self.delta, self.noise, self.selection, unit)

        if self.epsilon is not None:
            return price_at(float(self.epsilon))
        epsilon = solve_epsilon(price_at, accuracy=self.accuracy, expected=self.expected, confidence=self.confidence)
        return price_at(epsilon)

    def arguments(self) -> tuple[object, ...]:
        """Return the arguments, in order."""
        return (
            self.epsilon,
            self.delta,
            self.noise,
            self.selection,
            self.accuracy,
            self.expected,
            self.confidence,
        )

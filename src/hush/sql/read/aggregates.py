"""The aggregates of the outer query, each once, as requests for releases.

`AggregateRequests` is the hook of the outer query's translator: it turns an aggregate into a `Request` and returns the
reference to its statistic. Aggregates of one unit's rows, in subqueries, are those of `grouping`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.shorthand import plain_aggregate
from hush.sql.read.translator import Resolve, Translator
from hush.sql.syntax.expression import NULL, Expr, clamp_columns, literal, numeric, summed_columns
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.releases import Request

Bounds = Mapping[Expr, tuple[float, float]]
# Learned bounds are within these. An expression that has bounds if columns have these has bounds whatever is learned,
# so whether a query is refused does not depend on that. Values beyond are clamped.
WIDEST_BOUNDS = (-(2.0**41), 2.0**41)
_COUNTED = ("rows", "units", "count", "distinct")  # the kinds of requests that need no bounds
_NESTED_AGGREGATE = ("an aggregate inside an aggregate is refused", "Aggregate per unit in a subquery")
_MOST_QUANTILES = 100


class AggregateRequests:
    """Collects the aggregates of one query.

    Attributes:
        requests: What they request, each once, in order.
    """

    def __init__(self, refuse: Refuser, resolve: Resolve, units: int, bounds: Bounds) -> None:
        """Take what translates expressions over rows, the number of columns that identify the unit, and learned bounds.

        Args:
            refuse: Makes the refusals.
            resolve: Finds the column that a name refers to.
            units: How many columns identify the unit.
            bounds: The bounds that were learned, by the column without any.
        """
        self.requests: list[Request] = []
        self._refuse, self._units, self._bounds = refuse, units, bounds
        self._row = Translator(refuse, resolve)
        self._bounded_row = Translator(refuse, resolve, rebound=self._with_bounds)
        self._unbounded: dict[Expr, Expr] = {}  # columns without declared bounds, by the column with others

    def __call__(self, node: exp.Expr) -> Expr | None:
        """Return the reference to an aggregate's statistic; None if the node is not an aggregate."""
        node = plain_aggregate(self._refuse, node)
        rule = _AGGREGATES.get(type(node))
        if rule is None:
            if isinstance(node, (exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)):
                raise self._refuse(node, f"{node.sql_name()} over all rows would show one unit's value", _advice(node))
            if isinstance(node, exp.AggFunc) or _wraps_aggregate(node):
                raise self._refuse(node, *reason(node))
            return None
        request = rule(self, node)
        if isinstance(request, Request):
            return self._statistic(request)
        return Expr("list", ColumnKind.OTHER, tuple(map(self._statistic, request)))

    def _statistic(self, request: Request) -> Expr:
        """Return the reference to a request's statistic."""
        if request not in self.requests:
            self.requests.append(request)
        return Expr("statistic", ColumnKind.FLOAT, value=self.requests.index(request))

    def undeclared(self) -> tuple[Expr, ...]:
        """Return the columns without declared bounds that aggregates add up. A count needs no bounds."""
        summed = [request.argument for request in self.requests if request.kind not in _COUNTED]
        columns = [column for argument in summed if argument is not None for column in summed_columns(argument)]
        return tuple(dict.fromkeys(self._unbounded[column] for column in columns if column in self._unbounded))

    def _with_bounds(self, column: Expr) -> Expr:
        """Return a column with its learned bounds, if none are declared."""
        if column.kind not in (ColumnKind.INT, ColumnKind.FLOAT) or column.bounded or column.required:
            return column
        low, high = self._bounds.get(column, WIDEST_BOUNDS)
        low, high = max(low, column.low), min(high, column.high)  # COUNT(*) of a subquery is at least 0
        bounded = replace(column, low=low, high=high if low < high else low + 1.0)
        self._unbounded[bounded] = column
        return bounded

    def argument(self, node: exp.Expr, *, nonempty: bool = False) -> Expr:
        """Return the argument of an aggregate: a number with bounds.

        Args:
            node: The argument.
            nonempty: Whether to refuse bounds of width 0, as means and quantiles do.
        """
        if node.find(exp.AggFunc, exp.Window):
            raise self._refuse(node, *_NESTED_AGGREGATE)
        argument = clamp_columns(self._row.number(node))
        if not argument.bounded:
            argument = clamp_columns(self._bounded_row.number(node))
        if argument.kind is ColumnKind.NULL or not argument.bounded:
            raise self._refuse(node, "this has no bounds, so one unit could add any amount", *_bounds_advice(node))
        if nonempty and argument.low == argument.high and any(map(self._unbounded.get, summed_columns(argument))):
            # LEAST(x, 0), and no x is negative. To refuse it would depend on the data.
            argument = replace(argument, high=argument.low + max(1.0, abs(argument.low)))
        if not _is_summable(argument) or (nonempty and not argument.low < argument.high):
            raise self._refuse(node, "the bounds of this expression are empty or too wide", *_bounds_advice(node))
        column = argument.args[0] if argument.op == "number" else argument
        if column.required:
            middle = literal(argument.low + (argument.high - argument.low) / 2, ColumnKind.FLOAT)
            argument = replace(
                argument, op="coalesce", args=(replace(argument, required=False), middle), value=None, required=True
            )
        return argument

    def count(self, node: exp.Count) -> Request:
        """Return the request of a COUNT."""
        self._refuse.unless_only(node, "this", "big_int")
        if isinstance(node.this, exp.Star):
            return Request("rows")
        if isinstance(node.this, exp.Distinct):
            if len(node.this.expressions) != 1:
                raise self._refuse(node.this, "COUNT(DISTINCT ...) takes one expression", "Join texts with CONCAT_WS")
            return self.distinct(node.this.expressions[0])
        if node.this.find(exp.AggFunc):
            raise self._refuse(node, *_NESTED_AGGREGATE)
        argument = self._row(node.this)
        if argument.required or (argument.op == "literal" and argument.value is not None):
            return Request("rows")
        if argument.kind in (ColumnKind.INT, ColumnKind.FLOAT) and _is_summable(self._bounded_row(node.this)):
            return Request("count", self.argument(node.this))  # AVG of the same column shares this count
        # Any other value counts as 1 if it is there.
        is_missing = Expr("is_null", ColumnKind.BOOL, (argument,))
        branches = (is_missing, Expr("literal", ColumnKind.NULL), literal(1, ColumnKind.FLOAT))
        return Request("count", Expr("case", ColumnKind.FLOAT, branches, low=0.0, high=1.0, integral=True))

    def distinct(self, node: exp.Expr) -> Request:
        """Return the request of COUNT(DISTINCT x). A unit is one value of itself, whatever its rows are.

        Several units may have that value if the unit is a user within a window.
        """
        if node.find(exp.AggFunc, exp.Window):
            raise self._refuse(node, *_NESTED_AGGREGATE)
        argument = self._row(node)
        if argument.kind is ColumnKind.NULL:
            raise self._refuse(node, "NULL has no values to count", "Leave it out")
        if argument.unit and self._units == 1:
            return Request("units")
        is_unit = argument.unit or _is_unit_or_missing(argument)
        return Request("distinct", argument, per_unit=1 if is_unit else None)

    def approximate_distinct(self, node: exp.ApproxDistinct) -> Request:
        """Return the request of APPROX_COUNT_DISTINCT(x), which is counted as COUNT(DISTINCT x) is."""
        self._refuse.unless_only(node, "this")
        return self.distinct(node.this)

    def paired(self, kind: str, sample: bool, node: exp.Binary) -> Request:
        """Return the request of CORR(x, y) and the like, over rows where neither is missing."""
        self._refuse.unless_only(node, "this", "expression", "null_on_zero_variance")
        first, second = self._centred(node.this), self._centred(node.expression)
        factors = (_unless_missing(first, second), _unless_missing(second, first))
        return Request(kind, numeric("mul", first, second), sample=sample, factors=factors)

    def _centred(self, node: exp.Expr) -> Expr:
        """Return an argument around the middle of its bounds, which makes the product of two as small as can be."""
        argument = self.argument(node, nonempty=True)
        half = (argument.high - argument.low) / 2
        if not half <= 1e22:  # squares of products stay below 1e100
            raise self._refuse(node, "the bounds of this expression are too wide", *_bounds_advice(node))
        middle = literal(argument.low + half, ColumnKind.FLOAT)
        return clamp_columns(replace(numeric("sub", argument, middle), low=-half, high=half))

    def quantile(self, node: exp.Expr) -> Request | list[Request]:
        """Return the request of MEDIAN(x) or QUANTILE_CONT(x, 0.9), or those of QUANTILE_CONT(x, [0.1, 0.9])."""
        self._refuse.unless_only(node, "this", "expression", "quantile")
        level = node.args.get("expression") or node.args.get("quantile")
        return self._quantile(node, node.this, level)

    def ordered_quantile(self, node: exp.WithinGroup) -> Request | list[Request]:
        """Return the request of PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."""
        inner, order = node.this, node.expression
        if not isinstance(inner, (exp.PercentileCont, exp.PercentileDisc)) or inner.args.get("expression") is not None:
            raise self._refuse(node, "WITHIN GROUP is supported with PERCENTILE_CONT(0.5) only")
        self._refuse.unless_only(node, "this", "expression")
        self._refuse.unless_only(inner, "this")
        order_by = order.expressions
        if len(order_by) != 1:
            raise self._refuse(node, "WITHIN GROUP takes ORDER BY with one expression")
        # NULLS FIRST or LAST makes no difference: missing values are not counted.
        self._refuse.unless_only(order_by[0], "this", "desc", "nulls_first")
        return self._quantile(node, order_by[0].this, inner.this, descending=bool(order_by[0].args.get("desc")))

    def _quantile(
        self, node: exp.Expr, value: exp.Expr, level: exp.Expr | None, *, descending: bool = False
    ) -> Request | list[Request]:
        """Return the request of a quantile, or those of a list of quantiles. All of a column share one tree.

        Args:
            node: The aggregate, for refusals.
            value: Its argument.
            level: Its level, or a list of levels; None for the median.
            descending: Whether levels count from the largest value.
        """
        argument = replace(self.argument(value, nonempty=True), required=False)
        if not isinstance(level, exp.Array):
            return Request("quantile", argument, self._level(node, level, descending=descending))
        if not 1 <= len(level.expressions) <= _MOST_QUANTILES:
            raise self._refuse(level, f"a list of quantiles has 1 to {_MOST_QUANTILES} levels")
        levels = [self._level(node, item, descending=descending) for item in level.expressions]
        return [Request("quantile", argument, probability) for probability in levels]

    def _level(self, node: exp.Expr, level: exp.Expr | None, *, descending: bool) -> float:
        """Return the level of a quantile, counted from the smallest value."""
        probability = 0.5 if level is None else float(self._row.constant(level, int, float))
        if not 0 <= probability <= 1:
            raise self._refuse(node, "the level of a quantile must be between 0 and 1")
        return 1 - probability if descending else probability

    def plain(self, kind: str, sample: bool, node: exp.Expr) -> Request:
        """Return the request of an aggregate with one argument."""
        self._refuse.unless_only(node, "this")
        return Request(kind, self.argument(node.this, nonempty=kind != "sum"), sample=sample)


def _is_summable(argument: Expr) -> bool:
    """Return whether bounds are not too wide: squares of numbers up to 1e45 stay below 1e100, where numbers end."""
    return max(abs(argument.low), abs(argument.high)) <= 1e45


def _bounds_advice(node: exp.Expr) -> tuple[str, ...]:
    """Return how to give an expression bounds."""
    in_query = "Or write LEAST(GREATEST(x, 0), 100)"
    if not isinstance(node, exp.Column):
        return ("Declare bounds for its columns", in_query)
    return (f'Declare bounds={{"{node.name}": (LOW, HIGH)}}, --bounds {node.name}=LOW:HIGH', in_query)


def _wraps_aggregate(node: exp.Expr) -> bool:
    """Return whether a node contains an aggregate in a form that has its own reason for refusal."""
    return isinstance(node, (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls))


def _plain(kind: str, sample: bool = False) -> Callable[[AggregateRequests, Any], Request]:
    """Return the rule of an aggregate with one argument."""
    return lambda aggregates, node: aggregates.plain(kind, sample, node)


def _paired(kind: str, sample: bool = False) -> Callable[[AggregateRequests, Any], Request]:
    """Return the rule of an aggregate of two values."""
    return lambda aggregates, node: aggregates.paired(kind, sample, node)


def _unless_missing(value: Expr, other: Expr) -> Expr:
    """Return a value, or NULL where the other one is missing."""
    branches = (Expr("is_null", ColumnKind.BOOL, (other,)), NULL, value)
    return Expr("case", ColumnKind.FLOAT, branches, low=value.low, high=value.high)


def _is_unit_or_missing(argument: Expr) -> bool:
    """Return whether all values are the same column of units, or NULL: CASE WHEN ... THEN unit END."""
    if argument.op != "case":
        return False
    values = {part for part in (*argument.args[1:-1:2], argument.args[-1]) if part.kind is not ColumnKind.NULL}
    return len(values) == 1 and all(value.unit and value.op == "column" for value in values)


def _advice(node: exp.Expr) -> str:
    """Return what to write instead of an extreme value."""
    if isinstance(node, (exp.LogicalAnd, exp.LogicalOr)):
        return "Use COUNT_IF(condition), or aggregate per unit in a subquery"
    return "Use QUANTILE_CONT(x, 0.01) or QUANTILE_CONT(x, 0.99)"


_AGGREGATES: Mapping[type[exp.Expr], Callable[[AggregateRequests, Any], Request | list[Request]]] = {
    exp.Count: AggregateRequests.count,
    exp.Sum: _plain("sum"),
    exp.Avg: _plain("mean"),
    exp.Variance: _plain("variance", sample=True),
    exp.VariancePop: _plain("variance"),
    exp.Stddev: _plain("stddev", sample=True),
    exp.StddevSamp: _plain("stddev", sample=True),
    exp.StddevPop: _plain("stddev"),
    exp.Median: AggregateRequests.quantile,
    exp.Quantile: AggregateRequests.quantile,
    exp.ApproxQuantile: AggregateRequests.quantile,
    exp.ApproxDistinct: AggregateRequests.approximate_distinct,
    exp.Corr: _paired("correlation"),
    exp.CovarPop: _paired("covariance"),
    exp.CovarSamp: _paired("covariance", sample=True),
    exp.RegrSlope: _paired("slope"),
    exp.PercentileCont: AggregateRequests.quantile,
    exp.PercentileDisc: AggregateRequests.quantile,
    exp.WithinGroup: AggregateRequests.ordered_quantile,
}

"""From the text of a query to its plan.

`plan_query` parses the text with sqlglot, then reads the tree clause by clause. FROM and its joins go to `sources`,
expressions over rows to `translator`, expressions over groups to `per_unit.Grouping`. Aggregates become `Request`
objects, from which `hush.sql.syntax.releases.Allocation` finds the sums to release. Nothing here looks at data, and
nothing of the text survives except its constants and the names of the answer's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import sqlglot
from sqlglot import exp

from hush.data.tables.catalog import Catalog, ColumnKind
from hush.errors import InvalidArgument, check_instance
from hush.sql.read import rules as rules  # fills the allow-list of the translator
from hush.sql.read.per_unit import Grouping, check_aliases, group_keys
from hush.sql.read.shorthand import expand, plain_aggregate
from hush.sql.read.sources import SELECT_PARTS, Reader, check_clauses
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import Expr, clamp_columns, literal, summed_columns
from hush.sql.syntax.output import can_evaluate
from hush.sql.syntax.reasons import not_a_select, reason
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.releases import Allocation, Request
from hush.sql.write.plan import GroupKey, Order, Output, QueryPlan
from hush.statistics import ContributionLimits, TotalLimits

Limits = ContributionLimits | TotalLimits
Bounds = Mapping[Expr, tuple[float, float]]
MAX_TEXT_LENGTH = 50_000
MAX_GROUPS = 1_000_000
# Learned bounds are within these. An expression that has bounds if columns have these has bounds whatever is learned,
# so whether a query is refused does not depend on that. Values beyond are clamped.
WIDEST_BOUNDS = (-(2.0**41), 2.0**41)
_NESTED_AGGREGATE = ("an aggregate inside an aggregate is refused", "Aggregate per unit in a subquery")


def plan_query(
    text: str,
    *,
    tables: Catalog,
    limits: Limits | None = None,
    dialect: str = "duckdb",
    bounds: Bounds = MappingProxyType({}),
) -> QueryPlan:
    """Return the plan of a query with bounded contributions, or refuse the query. No data are read.

    Args:
        text: One SELECT with aggregates.
        tables: The declared tables.
        limits: How much one unit may contribute; by default one row in one group.
        dialect: The dialect that the text is written in. Every plan can be written in every dialect.
        bounds: Bounds of columns that the plan of the same text lists as ``undeclared``. Columns without any, there and
            here, are clamped to `WIDEST_BOUNDS`: the plan is safe, and its noise is large.

    Raises:
        QueryRefused: If a part of the query has no plan with bounded contributions. The message says where the part is,
            why it is refused and what to write instead.

    References:
        Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson (2020), "Differentially private SQL with bounded user
        contribution", section 3: contributions are clamped per user and group, then groups are limited per user. Here
        averages are the paper's bounded means (sums around the middle of the bounds), and sums run on integers.

    >>> from hush.data.tables.catalog import PrivateTable
    >>> columns = {"who": "BIGINT", "age": "INTEGER", "sex": "VARCHAR"}
    >>> people = PrivateTable(columns=columns, unit="who", bounds={"age": (0, 120)}, keys={"sex": ["f", "m"]})
    >>> text = "SELECT sex, COUNT(age) AS n, AVG(age) AS age FROM people GROUP BY sex"
    >>> plan = plan_query(text, tables=Catalog({"people": people}))
    >>> [(release.quantity.value, release.sensitivity * release.grid) for release in plan.releases]
    [('values', 1.0), ('centred sum', 60.0...)]
    """
    check_instance("tables", tables, Catalog)
    limits = limits if limits is not None else ContributionLimits()
    check_instance("limits", limits, (ContributionLimits, TotalLimits))
    select, refuse = _parse(text, dialect)
    try:
        return _Planner(select, refuse, tables, limits, bounds).plan()
    except RecursionError:
        raise QueryRefused(1, 1, "the query is nested too deeply", "Split it with WITH") from None


def _parse(text: str, dialect: str) -> tuple[exp.Select, Refuser]:
    """Return the SELECT of a text, and the object that makes its refusals.

    Of the parser's own errors, only the position is shown.
    """
    check_instance("text", text, str)
    if dialect not in ("duckdb", "spark", "postgres"):
        raise InvalidArgument("dialect", dialect, "duckdb, spark or postgres")
    refuse = Refuser(text)
    if not 0 < len(text) <= MAX_TEXT_LENGTH or "\x00" in text:
        raise QueryRefused(1, 1, f"a query has 1 to {MAX_TEXT_LENGTH} characters, none of them NUL")
    try:
        statements = [statement for statement in sqlglot.parse(text, read=dialect) if statement is not None]
    except sqlglot.errors.SqlglotError as error:
        position = (getattr(error, "errors", None) or [{}])[0]
        raise QueryRefused(
            int(position.get("line") or 1),
            int(position.get("col") or 1),
            "the text is not valid SQL",
            "Check its syntax",
        ) from None
    except (RecursionError, ValueError, TypeError, AttributeError, LookupError):  # bugs of the parser, on odd text
        raise QueryRefused(
            1, 1, "the text is not valid SQL, or is nested too deeply", "Check its syntax, or split it with WITH"
        ) from None
    if len(statements) != 1:
        raise QueryRefused(1, 1, "expected exactly one statement", "Ask one query at a time")
    if not isinstance(statements[0], exp.Select):
        raise refuse(statements[0], *not_a_select(statements[0]))
    expand(statements[0], dialect)
    return statements[0], refuse


class _Planner:
    """Plans one query: reads its clauses in order, and collects the aggregates that they use."""

    def __init__(self, select: exp.Select, refuse: Refuser, tables: Catalog, limits: Limits, bounds: Bounds) -> None:
        self._select, self._refuse, self._limits, self._bounds = select, refuse, limits, bounds
        check_clauses(refuse, select, *SELECT_PARTS, "order", "limit")
        reader = Reader(tables, refuse)
        self._origin, self._scope = reader.origin(select, reader.common_tables(select, {}))
        if self._origin.owner is None:
            raise refuse(select, "all tables are public, so nothing needs protection", "Query the engine directly")
        self._units = self._origin.owner.relation.units
        self._row = Translator(refuse, self._scope.resolve)
        self._bounded_row = Translator(refuse, self._scope.resolve, rebound=self._with_bounds)
        self._unbounded: dict[Expr, Expr] = {}  # columns without declared bounds, by the column with others
        self._requests: list[Request] = []

    def plan(self) -> QueryPlan:
        """Return the plan.

        WHERE and keys are translated first. SELECT, HAVING and ORDER BY refer to them, and add requests for aggregates.
        """
        select = self._select
        where = None if select.args.get("where") is None else self._row.condition(select.args["where"].this)
        aliases = check_aliases(self._refuse, select, self._scope.has_column)
        keys = group_keys(select, self._row, aliases)
        self._check_keys(keys)
        refs = tuple(replace(key, op="key", args=(), value=index, unit=False) for index, key in enumerate(keys))
        grouping = Grouping(self._row, keys, refs, self._aggregate)
        grouping.aliases = aliases
        outputs = self._outputs(grouping.translate)
        clause = select.args.get("having")
        having = None if clause is None else self._post_processing(grouping.translate, clause.this)
        order = self._order(grouping.translate, outputs)
        if not self._requests:
            raise self._refuse(select, "a query without an aggregate would show rows", "Add an aggregate: COUNT(*)")
        return self._assemble(where, keys, outputs, having, order)

    def _assemble(
        self,
        where: Expr | None,
        keys: tuple[Expr, ...],
        outputs: tuple[Output, ...],
        having: Expr | None,
        order: tuple[Order, ...],
    ) -> QueryPlan:
        """Return the plan from its translated clauses."""
        # A limit in total is one for a single group as well, so it bounds the contribution to each group.
        in_total = isinstance(self._limits, TotalLimits)
        rows = self._limits.rows_in_total if isinstance(self._limits, TotalLimits) else self._limits.rows_per_unit
        allocation = Allocation(self._requests, rows)
        public = all(key.domain is not None for key in keys)
        plan = QueryPlan(
            origin=self._origin,
            where=where,
            keys=tuple(GroupKey(name=f"k{n}", expression=key, domain=key.domain) for n, key in enumerate(keys)),
            public_keys=public,
            values=tuple(allocation.values),
            releases=tuple(allocation.releases),
            trees=tuple(allocation.trees),
            statistics=allocation.statistics,
            outputs=outputs,
            having=having,
            order=order,
            limit=self._limit(),
            groups_per_unit=self._limits.groups_per_unit,
            rows_per_unit=rows,
            in_total=in_total and bool(keys),
            units=self._units,
            undeclared=self._undeclared(),
        )
        groups = plan.num_groups
        if groups is not None and groups > MAX_GROUPS:
            raise self._refuse(self._select, "the public keys form more than a million groups", "List fewer keys")
        # A unit cannot contribute to more groups than there are: the noise need not cover more.
        return plan if groups is None else replace(plan, groups_per_unit=min(groups, self._limits.groups_per_unit))

    def _undeclared(self) -> tuple[Expr, ...]:
        """Return the columns without declared bounds that aggregates add up. A count needs no bounds."""
        summed = [request.argument for request in self._requests if request.kind not in ("rows", "units", "count")]
        columns = [column for argument in summed if argument is not None for column in summed_columns(argument)]
        return tuple(dict.fromkeys(self._unbounded[column] for column in columns if column in self._unbounded))

    def _with_bounds(self, column: Expr) -> Expr:
        """Return a column with the bounds that were learned for it, if nobody declared any."""
        if column.kind not in (ColumnKind.INT, ColumnKind.FLOAT) or column.bounded or column.required:
            return column
        low, high = self._bounds.get(column, WIDEST_BOUNDS)
        low, high = max(low, column.low), min(high, column.high)  # COUNT(*) of a subquery is at least 0
        bounded = replace(column, low=low, high=high if low < high else low + 1.0)
        self._unbounded[bounded] = column
        return bounded

    def _check_keys(self, keys: tuple[Expr, ...]) -> None:
        """Refuse keys that identify units, and constants."""
        for key, node in zip(keys, self._select.args["group"].expressions if keys else (), strict=False):
            if key.unit:
                raise self._refuse(node, "grouping by the unit would show single units", "Group by another column")
            if key.kind is ColumnKind.NULL or key.op == "literal":
                raise self._refuse(node, "a constant cannot be a key", "Leave it out")

    def _outputs(self, translate: Translator) -> tuple[Output, ...]:
        """Return the columns of the answer. A column without an alias has its own text as its name."""
        outputs: list[Output] = []
        for node in self._select.expressions:
            is_named = isinstance(node, (exp.Alias, exp.Column))
            name = node.alias_or_name if is_named else node.sql("duckdb", comments=False)
            if any(other.name.casefold() == name.casefold() for other in outputs):
                raise self._refuse(node, f"two columns of the answer are named {name}", "Rename one of them with AS")
            outputs.append(Output(name=name, expression=self._post_processing(translate, node.unalias())))
        return tuple(outputs)

    def _post_processing(self, translate: Translator, node: exp.Expr) -> Expr:
        """Return an expression over released values. It is evaluated after noise is added."""
        expression = translate(node)
        if not can_evaluate(expression):
            raise self._refuse(node, "this cannot be computed from released values", "Compute it from each row instead")
        return expression

    def _order(self, translate: Translator, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        """Return the expressions of ORDER BY, which may be positions in SELECT."""
        clause, order = self._select.args.get("order"), []
        for node in clause.expressions if clause is not None else ():
            self._refuse.unless_only(node, "this", "desc", "nulls_first")
            if isinstance(node.this, exp.Literal):
                position = int(node.this.this) if not node.this.is_string and node.this.this.isdecimal() else 0
                if not 1 <= position <= len(outputs):
                    raise self._refuse(node, "SELECT has no column at this position")
                expression = outputs[position - 1].expression
            else:
                expression = self._post_processing(translate, node.this)
            descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
            order.append(Order(expression=expression, descending=descending, nulls_first=nulls_first))
        return tuple(order)

    def _limit(self) -> int | None:
        """Return the number of LIMIT, or None."""
        clause = self._select.args.get("limit")
        if clause is None:
            return None
        if not isinstance(clause, exp.Limit):
            raise self._refuse(clause, "only LIMIT with a constant number is supported")
        self._refuse.unless_only(clause, "expression")
        limit = int(self._row.constant(clause.expression, int))
        if limit < 0:
            raise self._refuse(clause, "LIMIT must not be negative")
        return limit

    def _aggregate(self, node: exp.Expr) -> Expr | None:
        """Return the reference to an aggregate's statistic; None if the node is no aggregate."""
        node = plain_aggregate(self._refuse, node)
        rule = _AGGREGATES.get(type(node))
        if rule is None:
            if isinstance(node, (exp.Min, exp.Max)):
                why = f"{node.sql_name()} over all rows would show one unit's value"
                raise self._refuse(node, why, "Use QUANTILE_CONT(x, 0.01) or QUANTILE_CONT(x, 0.99)")
            if isinstance(node, exp.AggFunc) or _wraps_aggregate(node):
                raise self._refuse(node, *reason(node))
            return None
        request = rule(self, node)
        if request not in self._requests:
            self._requests.append(request)
        return Expr("statistic", ColumnKind.FLOAT, value=self._requests.index(request))

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
            (first, *more) = node.this.expressions
            if more or not self._row(first).unit or self._units > 1:
                raise self._refuse(node.this, *reason(node.this))
            return Request("units")
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

    def quantile(self, node: exp.Expr) -> Request:
        """Return the request of MEDIAN(x) or QUANTILE_CONT(x, 0.9)."""
        self._refuse.unless_only(node, "this", "expression", "quantile")
        level = node.args.get("expression") or node.args.get("quantile")
        return self._quantile(node, node.this, level)

    def ordered_quantile(self, node: exp.WithinGroup) -> Request:
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
        request = self._quantile(node, order_by[0].this, inner.this)
        if not order_by[0].args.get("desc") or request.probability is None:
            return request
        return replace(request, probability=1 - request.probability)

    def _quantile(self, node: exp.Expr, value: exp.Expr, level: exp.Expr | None) -> Request:
        """Return the request of a quantile.

        Args:
            node: The aggregate, for refusals.
            value: Its argument.
            level: Its level; None for the median.
        """
        if isinstance(level, (exp.Array, exp.Tuple, exp.Bracket)):
            raise self._refuse(
                level,
                "a list of quantiles is not supported",
                "Write a column for each: QUANTILE_CONT(x, 0.1), QUANTILE_CONT(x, 0.9)",
                "All quantiles of a column together cost as much as one",
            )
        probability = 0.5 if level is None else float(self._row.constant(level, int, float))
        if not 0 <= probability <= 1:
            raise self._refuse(node, "the level of a quantile must be between 0 and 1")
        return Request("quantile", replace(self.argument(value, nonempty=True), required=False), probability)

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


def _plain(kind: str, sample: bool = False) -> Callable[[_Planner, Any], Request]:
    """Return the rule of an aggregate with one argument."""
    return lambda planner, node: planner.plain(kind, sample, node)


_AGGREGATES: Mapping[type[exp.Expr], Callable[[_Planner, Any], Request]] = {
    exp.Count: _Planner.count,
    exp.Sum: _plain("sum"),
    exp.Avg: _plain("mean"),
    exp.Variance: _plain("variance", sample=True),
    exp.VariancePop: _plain("variance"),
    exp.Stddev: _plain("stddev", sample=True),
    exp.StddevSamp: _plain("stddev", sample=True),
    exp.StddevPop: _plain("stddev"),
    exp.Median: _Planner.quantile,
    exp.Quantile: _Planner.quantile,
    exp.PercentileCont: _Planner.quantile,
    exp.PercentileDisc: _Planner.quantile,
    exp.WithinGroup: _Planner.ordered_quantile,
}

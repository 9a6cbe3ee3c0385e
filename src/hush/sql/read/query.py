"""From the text of a query to its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sqlglot
from sqlglot import exp

from hush.data.tables.catalog import Catalog, ColumnKind, ContributionLimits
from hush.errors import InvalidArgument, check_instance
from hush.sql.read import rules as rules  # registers what may stand in expressions
from hush.sql.read.per_unit import Grouping, check_aliases, group_keys
from hush.sql.read.sources import SELECT_PARTS, Reader, check_clauses
from hush.sql.read.translate import Translator
from hush.sql.syntax.expression import Expr, literal
from hush.sql.syntax.output import can_evaluate
from hush.sql.syntax.reasons import reason, statement
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.releases import Allocation, Request
from hush.sql.write.plan import GroupKey, Order, Output, QueryPlan

MOST_TEXT = 50_000
MOST_GROUPS = 1_000_000


def plan_query(
    text: str, *, tables: Catalog, limits: ContributionLimits | None = None, dialect: str = "duckdb"
) -> QueryPlan:
    """Return the bounded plan of a query, or refuse it; no data are touched.

    Args:
        text: One SELECT with aggregates.
        tables: What is publicly known of the tables.
        limits: How much one unit may contribute.
        dialect: The dialect that the text is written in; every plan can be written in every dialect.

    Raises:
        QueryRefused: For whatever has no bounded plan, with its place, the reason and the supported form.

    References:
        Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson (2020), "Differentially private SQL with bounded user
        contribution", section 3: contributions are clamped per user and group, then groups are limited per user. Here
        averages are Google's bounded means (sums around the middle of the bounds), and sums run on integers.
    """
    check_instance("tables", tables, Catalog)
    limits = limits if limits is not None else ContributionLimits()
    check_instance("limits", limits, ContributionLimits)
    select, refuse = _parsed(text, dialect)
    try:
        return _Planner(select, refuse, tables, limits).plan()
    except RecursionError:
        raise QueryRefused(1, 1, "the query is nested too deeply", "Split it by WITH") from None


def _parsed(text: str, dialect: str) -> tuple[exp.Select, Refuser]:
    check_instance("text", text, str)
    if dialect not in ("duckdb", "spark", "postgres"):
        raise InvalidArgument("dialect", dialect, "duckdb, spark or postgres")
    refuse = Refuser(text)
    if not 0 < len(text) <= MOST_TEXT or "\x00" in text:
        raise QueryRefused(1, 1, f"the text of a query has 1 to {MOST_TEXT} characters, none of them zero")
    try:
        found = [part for part in sqlglot.parse(text, read=dialect) if part is not None]
    except sqlglot.errors.SqlglotError as error:
        place = (getattr(error, "errors", None) or [{}])[0]
        raise QueryRefused(
            int(place.get("line") or 1),
            int(place.get("col") or 1),
            "the text cannot be read as SQL",
            "Check its syntax",
        ) from None
    except (RecursionError, ValueError, TypeError, AttributeError, LookupError):  # the parser's own, on odd text
        raise QueryRefused(
            1, 1, "the text cannot be read as SQL, or is nested too deeply", "Split it by WITH"
        ) from None
    if len(found) != 1:
        raise QueryRefused(1, 1, "a text with several statements, or none, is refused", "Ask one question at a time")
    if not isinstance(found[0], exp.Select):
        raise refuse(found[0], *statement(found[0]))
    return found[0], refuse


class _Planner:
    """Plans one query."""

    def __init__(self, select: exp.Select, refuse: Refuser, tables: Catalog, limits: ContributionLimits) -> None:
        self._select, self._refuse, self._limits = select, refuse, limits
        check_clauses(refuse, select, *SELECT_PARTS, "order", "limit")
        reader = Reader(tables, refuse)
        self._origin, self._scope = reader.origin(select, reader.shared(select, {}))
        if self._origin.owner is None:
            raise refuse(select, "all tables are public, so that there is nothing to protect", "Ask the engine itself")
        self._units = self._origin.owner.relation.units
        self._row = Translator(refuse, self._scope.resolve)
        self._requests: list[Request] = []

    def plan(self) -> QueryPlan:
        select = self._select
        where = None if select.args.get("where") is None else self._row.truth(select.args["where"].this)
        aliases = check_aliases(self._refuse, select, self._scope.knows)
        keys = group_keys(select, self._row, aliases)
        self._check_keys(keys)
        refs = tuple(replace(key, op="key", args=(), value=place, unit=False) for place, key in enumerate(keys))
        grouping = Grouping(self._row, keys, refs, self._aggregate)
        grouping.aliases = aliases
        outputs = self._outputs(grouping.over)
        having = None if select.args.get("having") is None else self._after(grouping.over, select.args["having"].this)
        order = self._order(grouping.over, outputs)
        if not self._requests:
            raise self._refuse(select, "a query without an aggregate would show rows", "Add COUNT(*), or another")
        return self._assembled(where, keys, outputs, having, order)

    def _assembled(
        self, where: Expr | None, keys: tuple[Expr, ...], outputs: tuple[Output, ...], having: Expr | None, order: Any
    ) -> QueryPlan:
        found = Allocation(self._requests, self._limits.rows_per_unit)
        public = all(key.domain is not None for key in keys)
        plan = QueryPlan(
            origin=self._origin,
            where=where,
            keys=tuple(GroupKey(name=f"k{n}", expression=key, domain=key.domain) for n, key in enumerate(keys)),
            public_keys=public,
            values=tuple(found.values),
            releases=tuple(found.releases),
            trees=tuple(found.trees),
            statistics=found.statistics,
            outputs=outputs,
            having=having,
            order=order,
            limit=self._limit(),
            groups_per_unit=self._limits.groups_per_unit,
            rows_per_unit=self._limits.rows_per_unit,
            units=self._units,
        )
        groups = plan.num_groups
        if groups is not None and groups > MOST_GROUPS:
            raise self._refuse(self._select, "the public keys combine to more than a million groups", "List fewer keys")
        # A unit cannot be in more groups than there are, and noise need not allow for it.
        return plan if groups is None else replace(plan, groups_per_unit=min(groups, self._limits.groups_per_unit))

    def _check_keys(self, keys: tuple[Expr, ...]) -> None:
        for key, node in zip(keys, self._select.args["group"].expressions if keys else (), strict=False):
            if key.unit:
                raise self._refuse(node, "groups of one unit each would show units", "Group by something else")
            if key.kind is ColumnKind.NULL or key.op == "literal":
                raise self._refuse(node, "a constant is no key", "Leave it out")

    def _outputs(self, over: Translator) -> tuple[Output, ...]:
        found: list[Output] = []
        for node in self._select.expressions:
            name = (
                node.alias_or_name if isinstance(node, (exp.Alias, exp.Column)) else node.sql("duckdb", comments=False)
            )
            if any(other.name.casefold() == name.casefold() for other in found):
                raise self._refuse(node, f"two columns of the answer are named {name}", "Write AS with another name")
            found.append(Output(name=name, expression=self._after(over, node.unalias())))
        return tuple(found)

    def _after(self, over: Translator, node: exp.Expr) -> Expr:
        """Return an expression over released values, which is computed after the release."""
        for part in node.find_all(exp.Div, exp.Mod):
            if part.expression.find(exp.AggFunc) or self._names_aggregate(part.expression):
                raise self._refuse(
                    part,
                    "division by an aggregate is refused: near 0 its noise has no bound",
                    "Use AVG, or divide later",
                )
        found = over(node)
        if not can_evaluate(found):
            raise self._refuse(node, "this cannot be computed from released values", "Compute it from each row instead")
        return found

    def _names_aggregate(self, node: exp.Expr) -> bool:
        aliases = check_aliases(self._refuse, self._select, self._scope.knows)
        names = [aliases.get(part.name.casefold()) for part in node.find_all(exp.Column)]
        return any(found is not None and (found.find(exp.AggFunc) is not None) for found in names)

    def _order(self, over: Translator, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        clause, found = self._select.args.get("order"), []
        for node in clause.expressions if clause is not None else ():
            self._refuse.only(node, "this", "desc", "nulls_first")
            if isinstance(node.this, exp.Literal):
                place = int(node.this.this) if not node.this.is_string and node.this.this.isdecimal() else 0
                if not 1 <= place <= len(outputs):
                    raise self._refuse(node, "there is no such place in SELECT")
                by = outputs[place - 1].expression
            else:
                by = self._after(over, node.this)
            down, nulls = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
            found.append(Order(expression=by, descending=down, nulls_first=nulls))
        return tuple(found)

    def _limit(self) -> int | None:
        clause = self._select.args.get("limit")
        if clause is None:
            return None
        if not isinstance(clause, exp.Limit):
            raise self._refuse(clause, "only LIMIT with a number is supported")
        self._refuse.only(clause, "expression")
        limit = int(self._row.constant(clause.expression, int))
        if limit < 0:
            raise self._refuse(clause, "LIMIT takes a number that is not negative")
        return limit

    def _aggregate(self, node: exp.Expr) -> Expr | None:
        rule = _AGGREGATES.get(type(node))
        if rule is None:
            if isinstance(node, (exp.Min, exp.Max)):
                why = f"{node.sql_name()} of all rows is one unit's value"
                raise self._refuse(node, why, "Use QUANTILE_CONT(x, 0.01) or QUANTILE_CONT(x, 0.99)")
            if isinstance(node, exp.AggFunc) or _is_window(node):
                raise self._refuse(node, *reason(node))
            return None
        request = rule(self, node)
        if request not in self._requests:
            self._requests.append(request)
        kind = ColumnKind.FLOAT
        return Expr("statistic", kind, value=self._requests.index(request))

    def argument(self, node: exp.Expr, *, wide: bool = False) -> Expr:
        """Return what an aggregate is taken of: a number with bounds."""
        if node.find(exp.AggFunc, exp.Window):
            raise self._refuse(node, "an aggregate within an aggregate is refused", "Aggregate per unit in a subquery")
        found = self._row.number(node)
        if found.kind is ColumnKind.NULL or not found.bounded:
            raise self._refuse(node, "this has no bounds, so that one unit could add anything", *_bounds_advice(node))
        if not max(abs(found.low), abs(found.high)) <= 1e45 or (wide and not found.low < found.high):
            raise self._refuse(node, "the bounds of this are empty or too wide", *_bounds_advice(node))
        column = found.args[0] if found.op == "number" else found
        if column.required:
            middle = literal(found.low + (found.high - found.low) / 2, ColumnKind.FLOAT)
            found = replace(
                found, op="coalesce", args=(replace(found, required=False), middle), value=None, required=True
            )
        return found

    def count(self, node: exp.Count) -> Request:
        """Return what a COUNT asks for."""
        self._refuse.only(node, "this", "big_int")
        if isinstance(node.this, exp.Star):
            return Request("rows")
        if isinstance(node.this, exp.Distinct):
            (first, *more) = node.this.expressions
            found = self._row(first)
            if more or not found.unit or self._units > 1:
                raise self._refuse(node.this, *reason(node.this))
            return Request("units")
        if node.this.find(exp.AggFunc):
            raise self._refuse(node, "an aggregate within an aggregate is refused", "Aggregate per unit in a subquery")
        found = self._row(node.this)
        if found.required or (found.op == "literal" and found.value is not None):
            return Request("rows")
        if found.kind in (ColumnKind.INT, ColumnKind.FLOAT) and found.bounded:
            return Request("count", self.argument(node.this))  # shared with AVG of the same
        one = literal(1, ColumnKind.FLOAT)
        missing = Expr("is_null", ColumnKind.BOOL, (found,))
        nothing = Expr("literal", ColumnKind.NULL)
        there = Expr("case", ColumnKind.FLOAT, (missing, nothing, one), low=0.0, high=1.0, whole=True)
        return Request("count", there)

    def quantile(self, node: exp.Expr) -> Request:
        """Return what a median or quantile asks for."""
        self._refuse.only(node, "this", "expression", "quantile")
        share = node.args.get("expression") or node.args.get("quantile")
        return self._quantile(node, node.this, share)

    def ordered_quantile(self, node: exp.WithinGroup) -> Request:
        """Return what PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x) asks for."""
        inner, order = node.this, node.expression
        if not isinstance(inner, (exp.PercentileCont, exp.PercentileDisc)) or inner.args.get("expression") is not None:
            raise self._refuse(node, "WITHIN GROUP is supported with PERCENTILE_CONT(0.5)")
        self._refuse.only(node, "this", "expression")
        self._refuse.only(inner, "this")
        by = order.expressions
        if len(by) != 1:
            raise self._refuse(node, "WITHIN GROUP takes ORDER BY with one expression")
        self._refuse.only(by[0], "this", "desc", "nulls_first")  # missing values count nowhere
        found = self._quantile(node, by[0].this, inner.this)
        if not by[0].args.get("desc") or found.probability is None:
            return found
        return replace(found, probability=1 - found.probability)

    def _quantile(self, node: exp.Expr, value: exp.Expr, share: exp.Expr | None) -> Request:
        if isinstance(share, (exp.Array, exp.Tuple, exp.Bracket)):
            raise self._refuse(
                share,
                "a list of quantiles is not supported",
                "Write a column for each: QUANTILE_CONT(x, 0.1), QUANTILE_CONT(x, 0.9); together they cost as one",
            )
        probability = 0.5 if share is None else float(self._row.constant(share, int, float))
        if not 0 <= probability <= 1:
            raise self._refuse(node, "a quantile is between 0 and 1")
        return Request("quantile", replace(self.argument(value, wide=True), required=False), probability)

    def plain(self, kind: str, sample: bool, node: exp.Expr) -> Request:
        """Return what an aggregate of one argument asks for."""
        self._refuse.only(node, "this")
        return Request(kind, self.argument(node.this, wide=kind != "sum"), sample=sample)


def _bounds_advice(node: exp.Expr) -> tuple[str, ...]:
    written = "Or write LEAST(GREATEST(x, 0), 100)"
    if not isinstance(node, exp.Column):
        return ("Declare bounds for the columns within", written)
    return (f'Declare bounds={{"{node.name}": (LOW, HIGH)}}, --bounds {node.name}=LOW:HIGH', written)


def _is_window(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls))


def _plain(kind: str, sample: bool = False) -> Callable[[_Planner, Any], Request]:
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

"""From the text of a query to its plan.

`plan_query` parses the text (`parsed_query`), then reads the tree clause by clause. FROM and its joins go to `reader`,
expressions over rows to `translator`, expressions over groups to `per_unit.Grouping`. Aggregates become `Request`
objects (`aggregates`), from which `hush.sql.syntax.releases.Allocation` finds the sums to release. Nothing here looks
at data, and only constants and the names of the answer's columns are kept from the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from types import MappingProxyType

from sqlglot import exp

from hush.data.tables.catalog import Catalog, ColumnKind
from hush.errors import check_instance
from hush.sql.read import rules as rules  # fills the allow-list of the translator
from hush.sql.read.aggregates import AggregateRequests, Bounds
from hush.sql.read.grouping import Grouping, check_aliases, group_keys
from hush.sql.read.grouping_sets import grouping_sets
from hush.sql.read.parsed_query import ParsedQuery, parse_query, released_value
from hush.sql.read.relations.reader import SELECT_PARTS, Reader, check_clauses
from hush.sql.read.released_windows import ordering, released_window
from hush.sql.read.translator import ZONE_ADVICE, Translator
from hush.sql.syntax.expression import Expr, literal
from hush.sql.syntax.output import Order, can_evaluate
from hush.sql.syntax.refusal import QueryRefused
from hush.sql.syntax.releases import Allocation
from hush.sql.syntax.windows import windows_in
from hush.sql.write.plan import GroupKey, Output, QueryPlan
from hush.statistics import ContributionLimits, TotalLimits

Limits = ContributionLimits | TotalLimits
MAX_GROUPS = 1_000_000


def plan_query(
    text: str | ParsedQuery,
    *,
    tables: Catalog,
    limits: Limits | None = None,
    dialect: str = "duckdb",
    bounds: Bounds = MappingProxyType({}),
) -> QueryPlan:
    """Return the plan of a query with bounded contributions, or refuse the query. No data are read.

    Args:
        text: One SELECT with aggregates; or one that is parsed, with the relations that are released before it.
        tables: The declared tables.
        limits: How much one unit may contribute; by default one row in one group.
        dialect: The dialect that the text is written in. The plan can be written in this one, and in duckdb.
        bounds: Bounds of columns that the plan of the same text lists as ``undeclared``. Columns without any, there and
            here, are clamped to `hush.sql.read.aggregates.WIDEST_BOUNDS`: the plan is safe, and its noise is large.

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
    check_instance("text", text, (str, ParsedQuery))
    check_instance("limits", limits, (ContributionLimits, TotalLimits))
    query = parse_query(text, dialect) if isinstance(text, str) else text
    try:
        return _Planner(query, tables, limits, bounds).plan()
    except RecursionError:
        raise QueryRefused(1, 1, "the query is nested too deeply", "Split it with WITH") from None


_NOT_BY_UNIT = (
    "Group by another column",
    "Or count units by what they have: SELECT COUNT(*) FROM (SELECT unit, SUM(x) AS s FROM t GROUP BY unit) AS u "
    "WHERE s > 300",
)


class _Planner:
    """Plans one query: reads its clauses in order, and collects the aggregates that they use."""

    def __init__(self, query: ParsedQuery, tables: Catalog, limits: Limits, bounds: Bounds) -> None:
        select, refuse = query.select.copy(), query.refuse
        self._select, self._refuse, self._limits, self._released = select, refuse, limits, query.released
        self._in_total = isinstance(limits, TotalLimits)
        self._sets = grouping_sets(refuse, select)
        check_clauses(refuse, select, *SELECT_PARTS, "distinct", "qualify", "order", "limit", "offset")
        reader = Reader(tables, refuse, query.released)
        common = reader.common_tables(select, {})
        self._origin, self._scope = reader.origin(select, common)
        # Before tables are called public: a subquery may read private ones.
        self._where = reader.where(select, self._scope, common)
        if self._origin.owner is None:
            raise refuse(select, "all tables are public, so nothing needs protection", "Query the engine directly")
        self._units = self._origin.owner.relation.units
        self._row = Translator(refuse, self._scope.resolve)
        self._aggregates = AggregateRequests(refuse, self._scope.resolve, self._units, bounds)

    def plan(self) -> QueryPlan:
        """Return the plan.

        WHERE and keys are translated first. SELECT, HAVING and ORDER BY refer to them, and add requests for aggregates.
        """
        select, where = self._select, self._where
        if select.args.get("distinct") and not any(item.find(exp.AggFunc) for item in select.expressions):
            why = "SELECT DISTINCT without an aggregate would return rows"
            raise self._refuse(select, why, "Use GROUP BY with COUNT(*)")
        aliases = check_aliases(self._refuse, select, self._scope.has_column)
        keys = group_keys(select, self._row, aliases)
        self._check_keys(keys)
        self._keys, self._members = keys, self._key_sets(keys, aliases)
        refs = tuple(replace(key, op="key", args=(), value=index, unit=False) for index, key in enumerate(keys))
        grouping = Grouping(self._row, keys, refs, self._aggregate_or_window)
        grouping.aliases, self._translate = aliases, grouping.translate
        outputs = self._outputs()
        self._check_distinct(select.args.get("distinct"), refs, outputs)
        having, qualify = self._condition("having"), self._condition("qualify")
        if having is not None and any(True for _ in windows_in(having)):
            raise self._refuse(select.args["having"], "HAVING cannot use a window", "Use QUALIFY")
        order = self._order(outputs)
        if not self._aggregates.requests:
            raise self._refuse(select, "a query without an aggregate would show rows", "Add an aggregate: COUNT(*)")
        plan = self._assemble(where, keys, outputs, (having, qualify), order)
        return self._checked(self._with_sets(plan, self._members) if self._members else plan)

    def _assemble(
        self,
        where: Expr | None,
        keys: tuple[Expr, ...],
        outputs: tuple[Output, ...],
        conditions: tuple[Expr | None, Expr | None],
        order: tuple[Order, ...],
    ) -> QueryPlan:
        """Return the plan from its translated clauses."""
        # A limit in total is one for a single group as well, so it bounds the contribution to each group.
        rows = self._limits.rows_in_total if isinstance(self._limits, TotalLimits) else self._limits.rows_per_unit
        allocation = Allocation(self._aggregates.requests, rows)
        public = all(key.domain is not None for key in keys)
        return QueryPlan(
            origin=self._origin,
            where=where,
            keys=tuple(GroupKey(name=f"k{n}", expression=key, domain=key.domain) for n, key in enumerate(keys)),
            public_keys=public,
            values=tuple(allocation.values),
            releases=tuple(allocation.releases),
            trees=tuple(allocation.trees),
            statistics=allocation.statistics,
            outputs=outputs,
            having=conditions[0],
            qualify=conditions[1],
            order=order,
            limit=self._rows_of("limit"),
            offset=self._rows_of("offset") or 0,
            sets=(),
            groups_per_unit=self._limits.groups_per_unit,
            groups_per_set=self._limits.groups_per_unit,
            rows_per_unit=rows,
            in_total=self._in_total and bool(keys),
            units=self._units,
            undeclared=self._aggregates.undeclared(),
        )

    def _key_sets(self, keys: tuple[Expr, ...], aliases: Mapping[str, exp.Expr]) -> tuple[tuple[int, ...], ...]:
        """Return the keys of each grouping set, by their index."""
        sets = []
        for nodes in self._sets or ():
            self._select.args["group"].set("expressions", nodes)
            sets.append(tuple(keys.index(key) for key in group_keys(self._select, self._row, aliases)))
        return tuple(sets)

    def _with_sets(self, plan: QueryPlan, sets: tuple[tuple[int, ...], ...]) -> QueryPlan:
        """Return a plan with several groupings: the set is one more key, and the other keys may be NULL."""
        keys = [
            key if key.domain is None else replace(key, domain=tuple(dict.fromkeys([*key.domain, None])))
            for key in plan.keys
        ]
        number = Expr("set", ColumnKind.INT)
        keys.append(GroupKey(name=f"k{len(keys)}", expression=number, domain=tuple(range(len(sets)))))
        most = plan.groups_per_unit
        if not plan.in_total:
            sizes = [prod(len(plan.keys[index].domain or ()) for index in members) for members in sets]
            most = sum(min(most, size) if plan.public_keys else most for size in sizes)
        return replace(plan, keys=tuple(keys), sets=sets, groups_per_unit=most, in_total=self._in_total)

    def _checked(self, plan: QueryPlan) -> QueryPlan:
        """Return a plan that does not have too many groups, nor covers more of a unit's groups than there are."""
        groups = plan.num_groups
        # With several groupings, the engine lists the combinations that are in none of them as well.
        if groups is not None and prod(len(key.domain or ()) for key in plan.keys) > MAX_GROUPS:
            raise self._refuse(self._select, "the public keys form more than a million groups", "List fewer keys")
        # A unit cannot contribute to more groups than there are: the noise need not cover more.
        return plan if groups is None else replace(plan, groups_per_unit=min(groups, plan.groups_per_unit))

    def _check_keys(self, keys: tuple[Expr, ...]) -> None:
        """Refuse keys that identify units, and constants."""
        for key, node in zip(keys, self._select.args["group"].expressions if keys else (), strict=False):
            if key.unit or key.owner_key:
                what = "the unit" if key.unit else "a key that only rows of one unit have"
                raise self._refuse(node, f"grouping by {what} would show single units", *_NOT_BY_UNIT)
            if key.kind is ColumnKind.INSTANT:
                raise self._refuse(node, "a timestamp with a time zone has no date or hour of its own", ZONE_ADVICE)
            if key.kind is ColumnKind.NULL or key.op == "literal":
                raise self._refuse(node, "a constant cannot be a key", "Leave it out")

    def _aggregate_or_window(self, node: exp.Expr) -> Expr | None:
        """Return the reference to an aggregate, or a window over released values; None for other nodes."""
        if isinstance(node, exp.Grouping):
            return self._is_left_out(node)
        if isinstance(node, exp.Subquery):
            return released_value(node, self._released, self._refuse)
        return released_window(self._translate, node) if isinstance(node, exp.Window) else self._aggregates(node)

    def _check_distinct(self, clause: exp.Distinct | None, refs: tuple[Expr, ...], outputs: tuple[Output, ...]) -> None:
        """Refuse a SELECT DISTINCT that would drop rows of the answer. With all keys shown, no two rows are equal."""
        if clause is None:
            return
        self._refuse.unless_only(clause)
        if self._sets or not set(refs) <= {output.expression for output in outputs}:
            raise self._refuse(
                self._select, "SELECT DISTINCT is supported where it changes nothing", "Select every key of GROUP BY"
            )

    def _outputs(self) -> tuple[Output, ...]:
        """Return the columns of the answer. A column without an alias has its own text as its name."""
        outputs: list[Output] = []
        for node in self._select.expressions:
            is_named = isinstance(node, (exp.Alias, exp.Column))
            name = node.alias_or_name if is_named else node.sql("duckdb", comments=False)
            if any(other.name.casefold() == name.casefold() for other in outputs):
                raise self._refuse(node, f"two columns of the answer are named {name}", "Rename one of them with AS")
            outputs.append(Output(name=name, expression=self._post_processing(node.unalias(), inside=False)))
        return tuple(outputs)

    def _is_left_out(self, node: exp.Grouping) -> Expr:
        """Translate GROUPING(key): 1 where the key is not in the set of a group, 0 where it is."""
        key = self._row(node.expressions[0]) if len(node.expressions) == 1 else None
        if key not in self._keys:
            raise self._refuse(node, "GROUPING takes one key of GROUP BY")
        index, number = self._keys.index(key), Expr("key", ColumnKind.INT, value=len(self._keys))
        others = [literal(i, ColumnKind.INT) for i, members in enumerate(self._members) if index not in members]
        if not others:
            return literal(0, ColumnKind.INT)
        is_outside = Expr("in", ColumnKind.BOOL, (number, *others))
        return Expr(
            "case",
            ColumnKind.INT,
            (is_outside, *(literal(i, ColumnKind.INT) for i in (1, 0))),
            low=0.0,
            high=1.0,
            integral=True,
        )

    def _condition(self, clause: str) -> Expr | None:
        """Return the condition of HAVING or QUALIFY, over released values."""
        node = self._select.args.get(clause)
        return None if node is None else self._post_processing(node.this)

    def _post_processing(self, node: exp.Expr, *, inside: bool = True) -> Expr:
        """Return an expression over released values. It is evaluated after noise is added.

        Args:
            node: The expression.
            inside: Whether it is a part of a condition or an order, and no column of the answer.
        """
        expression = self._translate(node)
        if not can_evaluate(expression):
            raise self._refuse(node, "this cannot be computed from released values", "Compute it from each row instead")
        parts = (expression,) if inside else expression.args
        if any(map(_has_list, parts)):  # lists have no order, and no place among the values of a window
            raise self._refuse(node, "a list of quantiles is a column of its own", "Write QUANTILE_CONT(x, 0.5) here")
        return expression

    def _order(self, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        """Return the expressions of ORDER BY, which may be positions in SELECT."""

        def expression_of(node: exp.Expr) -> Expr:
            if not isinstance(node, exp.Literal):
                return self._post_processing(node)
            position = int(node.this) if not node.is_string and node.this.isdecimal() else 0
            if not 1 <= position <= len(outputs):
                raise self._refuse(node, "SELECT has no column at this position")
            return outputs[position - 1].expression

        return ordering(self._refuse, self._select.args.get("order"), expression_of)

    def _rows_of(self, name: str) -> int | None:
        """Return the number of LIMIT or OFFSET, or None."""
        clause, keyword = self._select.args.get(name), name.upper()
        if clause is None:
            return None
        if not isinstance(clause, (exp.Limit, exp.Offset)):
            raise self._refuse(clause, f"only {keyword} with a constant number is supported")
        self._refuse.unless_only(clause, "expression")
        number = int(self._row.constant(clause.expression, int))
        if number < 0:
            raise self._refuse(clause, f"{keyword} must not be negative")
        return number


def _has_list(expression: Expr) -> bool:
    """Return whether a list of quantiles is a part of an expression."""
    return expression.op == "list" or any(map(_has_list, expression.args))

"""Subqueries that aggregate each unit's rows, and expressions over groups.

A subquery such as SELECT user, SUM(x) ... GROUP BY user has one row per unit, or a few, and its rows still belong to
units. One that aggregates over units is refused: its rows would belong to no unit, so their change could not be
bounded.

`Grouping` serves both such subqueries and the outer query. It translates an expression over groups: keys become
references to keys, aggregates references to aggregates, and every other column is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.shorthand import plain_aggregate
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import Expr, clamp_columns, numeric
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.relation import Field, NamedRelation, Origin, PerUnit, Projection, QueryRelation

Aggregate = Callable[[exp.Expr], Expr | None]


class Grouping:
    """Translates expressions over groups.

    Attributes:
        aliases: The expressions that SELECT names, by name in lower case.
        translate: The translator. It takes keys, aggregates, and anything computed from them.
    """

    def __init__(self, row: Translator, keys: tuple[Expr, ...], refs: tuple[Expr, ...], aggregate: Aggregate) -> None:
        """Make a translator of expressions over groups.

        Args:
            row: Translates expressions over rows.
            keys: The keys, as expressions over rows.
            refs: The reference that stands for each key.
            aggregate: Translates an aggregate; returns None for other nodes.
        """
        self._row, self._keys, self._refs, self._aggregate = row, keys, refs, aggregate
        self.aliases: dict[str, exp.Expr] = {}
        self._expanding: set[str] = set()  # aliases that are being translated: a name within itself is a column
        self.translate = Translator(row.refuse, self._column, self._key_or_aggregate)

    def _key_or_aggregate(self, node: exp.Expr) -> Expr | None:
        """Return the reference to a key or to an aggregate, if a node is one.

        A node is a key if it translates to the same expression, however the query writes it.
        """
        aggregate = self._aggregate(node)
        if aggregate is not None or isinstance(node, exp.Literal) or node.find(exp.AggFunc, exp.Window, exp.Query):
            return aggregate
        try:
            key = self._row(node)
        except QueryRefused:
            return None  # it contains an alias, or the rules refuse it again
        return next((ref for known, ref in zip(self._keys, self._refs, strict=True) if known == key), None)

    def _column(self, node: exp.Column) -> Expr:
        """Return the expression that an alias names. Any other column would show rows."""
        name = node.name.casefold()
        if not node.table and name in self.aliases and name not in self._expanding:
            self._expanding.add(name)
            expression = self.translate(self.aliases[name])
            self._expanding.discard(name)
            return expression
        self._row(node)  # refuses a column that does not exist
        raise self._row.refuse(
            node,
            "this column is neither a key nor inside an aggregate, so it would show rows",
            "Add it to GROUP BY",
        )


def group_keys(node: exp.Select, row: Translator, aliases: Mapping[str, exp.Expr]) -> tuple[Expr, ...]:
    """Return the keys of GROUP BY, which may be positions in SELECT or aliases."""
    clause, keys = node.args.get("group"), []
    for item in clause.expressions if clause is not None else ():
        inner = item
        if isinstance(item, exp.Literal) and not item.is_string:
            position = int(item.this) if item.this.isdecimal() else 0
            if not 1 <= position <= len(node.expressions):
                raise row.refuse(item, "SELECT has no column at this position")
            inner = node.expressions[position - 1].unalias()
        elif isinstance(item, exp.Column) and not item.table and item.name.casefold() in aliases:
            inner = aliases[item.name.casefold()]
        if inner.find(exp.AggFunc):
            raise row.refuse(inner, "a key cannot contain an aggregate")
        key = row(inner)
        if key not in keys:
            keys.append(key)
    return tuple(keys)


def check_aliases(refuse: Refuser, node: exp.Select, has_column: Callable[[str], bool]) -> dict[str, exp.Expr]:
    """Return the aliases of SELECT. Refuse those that could be mistaken for a column where they are used."""
    aliases: dict[str, exp.Expr] = {}
    used = {
        column.name.casefold()
        for clause in ("group", "having", "order")
        for column in (node.args[clause].find_all(exp.Column) if node.args.get(clause) else ())
        if not column.table
    }
    for item in node.expressions:
        if not isinstance(item, exp.Alias):
            continue
        name = item.alias.casefold()
        names_itself = isinstance(item.this, exp.Column) and item.this.name.casefold() == name
        is_column = has_column(item.alias)
        if name in aliases or (is_column and not names_itself and name in used):
            raise refuse(
                item, f"the name {item.alias} is already taken by another column", "Choose a name that differs"
            )
        if not is_column:
            aliases[name] = item.this
    return aliases


def is_aggregated(node: exp.Select) -> bool:
    """Return whether a subquery aggregates rows. An aggregate over a window does not, nor does one of a subquery."""
    if node.args.get("group") or node.args.get("having"):
        return True
    return any(_aggregates(item) for item in node.expressions)


def _aggregates(node: exp.Expr) -> bool:
    """Return whether an expression aggregates rows."""
    if isinstance(node, (exp.Window, exp.Query)):
        return False
    return isinstance(node, exp.AggFunc) or any(_aggregates(child) for child in node.iter_expressions())


def unit_aggregate(row: Translator, node: exp.Expr) -> Expr | None:
    """Return an aggregate of one unit's rows; None if a node is none."""
    node = plain_aggregate(row.refuse, node)
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(row, node)
    if isinstance(node, exp.AggFunc):
        raise row.refuse(node, *reason(node))
    return None


class _Aggregates:
    """The aggregates of a subquery, each once."""

    def __init__(self, row: Translator, alias: str) -> None:
        self.aggregates: list[Expr] = []
        self._row, self._alias = row, alias

    def __call__(self, node: exp.Expr) -> Expr | None:
        aggregate = unit_aggregate(self._row, node)
        if aggregate is None:
            return None
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        name = f"a{self.aggregates.index(aggregate)}"
        return replace(aggregate, op="column", args=(), value=(self._alias, name))


def per_unit_select(
    node: exp.Select,
    origin: Origin,
    where: Expr | None,
    row: Translator,
    has_column: Callable[[str], bool],
    names: Iterator[str],
    alias: str,
) -> QueryRelation:
    """Return a subquery with aggregates as a relation, provided that it groups by the unit.

    The relation is a `Projection` of a `PerUnit`: the inner one computes keys and aggregates, the outer one applies
    HAVING and computes the columns.

    Args:
        node: The subquery.
        origin: Its FROM clause.
        where: Its condition.
        row: Translates expressions over rows.
        has_column: Whether FROM has a column of a name.
        names: New names of common table expressions.
        alias: A new alias, for the inner relation.
    """
    aliases = check_aliases(row.refuse, node, has_column)
    keys = group_keys(node, row, aliases)
    owner = origin.owner
    if owner is not None:
        _check_grouped_by_unit(node, owner, keys, row.refuse)
    refs = tuple(replace(key, op="column", args=(), value=(alias, f"k{index}")) for index, key in enumerate(keys))
    aggregates = _Aggregates(row, alias)
    grouping = Grouping(row, keys, refs, aggregates)
    grouping.aliases, translate = aliases, grouping.translate
    items = [_item(item, translate) for item in node.expressions]
    having = None if node.args.get("having") is None else translate.condition(node.args["having"].this)
    units, id_kind = (owner.relation.units, owner.relation.id_kind) if owner else (0, None)
    inner = PerUnit(
        origin,
        where,
        tuple((f"k{index}", key) for index, key in enumerate(keys)),
        tuple((f"a{index}", aggregate) for index, aggregate in enumerate(aggregates.aggregates)),
    )
    from_item = NamedRelation(alias, QueryRelation(inner, (), units, id_kind, next(names)))
    fields = tuple(
        Field(name, f"c{index}", replace(item, op="column", args=(), value=None))
        for index, (name, item) in enumerate(items)
    )
    if len({name.casefold() for name, _ in items}) != len(items):
        raise row.refuse(node, "two columns have the same name", "Rename one of them with AS")
    body = Projection(
        Origin(from_item, (), from_item if units else None),
        having,
        tuple((f"c{index}", item) for index, (_, item) in enumerate(items)),
    )
    return QueryRelation(body, fields, units, id_kind, next(names))


def _check_grouped_by_unit(node: exp.Select, owner: NamedRelation, keys: tuple[Expr, ...], refuse: Refuser) -> None:
    """Refuse a subquery whose rows would not belong to one unit.

    The unit, or a key that leads to it, has to be a key unchanged: an expression of it, such as unit % 10, can be equal
    for two units.
    """
    if owner.relation.units > 1:
        raise refuse(
            node,
            "a subquery cannot aggregate if the unit is a user within a window",
            "Declare the table with the user as its unit",
        )
    if not any((key.unit or key.owner_key) and key.op == "column" for key in keys):
        raise refuse(
            node,
            "a subquery that aggregates over units is refused: its rows would belong to no unit",
            "Add the unit to its GROUP BY",
        )


def _item(node: exp.Expr, translate: Translator) -> tuple[str, Expr]:
    """Return the name and the expression of a column of a subquery."""
    if not node.alias_or_name:
        raise translate.refuse(node, "a column of a subquery needs a name", "Write AS name")
    return node.alias_or_name, translate(node.unalias())


def _count(translate: Translator, node: exp.Count) -> Expr:
    """Translate COUNT(*), COUNT(x) and COUNT(DISTINCT x) of one unit's rows."""
    translate.refuse.unless_only(node, "this", "big_int")
    if isinstance(node.this, exp.Star):
        return Expr("count_rows", ColumnKind.FLOAT, low=0.0, integral=True)
    if isinstance(node.this, exp.Distinct):
        if len(node.this.expressions) != 1:
            raise translate.refuse(node, "COUNT(DISTINCT ...) takes one column")
        return Expr("distinct_of", ColumnKind.FLOAT, (translate(node.this.expressions[0]),), low=0.0, integral=True)
    return Expr("count_of", ColumnKind.FLOAT, (translate(node.this),), low=0.0, integral=True)


def _sum_or_mean(op: str) -> Callable[[Translator, Any], Expr]:
    """Return the rule for SUM or AVG of one unit's rows. They run on the grid, as sums over units do."""

    def rule(translate: Translator, node: exp.Func) -> Expr:
        translate.refuse.unless_only(node, "this")
        inner = clamp_columns(translate.number(node.this))
        if not inner.bounded:
            # Without bounds there is no grid. A floating-point sum depends on the order of rows, and so on other units.
            raise translate.refuse(node, "a sum needs bounds", "Declare bounds, or write LEAST(GREATEST(x, 0), 100)")
        aggregate = numeric(op, inner)
        return replace(aggregate, low=inner.low, high=inner.high) if op == "mean_of" else aggregate

    return rule


def _extreme(op: str) -> Callable[[Translator, Any], Expr]:
    """Return the rule for MIN or MAX of one unit's rows. Both are allowed here: the result is the unit's own."""

    def rule(translate: Translator, node: exp.Func) -> Expr:
        translate.refuse.unless_only(node, "this")
        inner = translate(node.this)
        if inner.kind is ColumnKind.BOOL:  # PostgreSQL has no extremes of truth values
            return Expr("any_of" if op == "max_of" else "all_of", ColumnKind.BOOL, (inner,))
        return replace(inner, op=op, args=(inner,), value=None, unit=False, owner_key="", required=False)

    return rule


def _logical(op: str) -> Callable[[Translator, Any], Expr]:
    """Return the rule for BOOL_AND or BOOL_OR of one unit's rows."""

    def rule(translate: Translator, node: exp.Func) -> Expr:
        translate.refuse.unless_only(node, "this")
        return Expr(op, ColumnKind.BOOL, (translate.condition(node.this),))

    return rule


_RULES: Mapping[type[exp.Expr], Callable[[Translator, Any], Expr]] = {
    exp.Count: _count,
    exp.Sum: _sum_or_mean("sum_of"),
    exp.Avg: _sum_or_mean("mean_of"),
    exp.Min: _extreme("min_of"),
    exp.Max: _extreme("max_of"),
    exp.LogicalAnd: _logical("all_of"),
    exp.LogicalOr: _logical("any_of"),
}

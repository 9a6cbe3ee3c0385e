"""Subqueries that aggregate each unit's rows, and the shared reading of expressions over groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.translate import Translator
from hush.sql.syntax.expression import Expr, numeric
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.relation import Chosen, Field, NamedRelation, Origin, PerUnit, QueryRelation

Aggregate = Callable[[exp.Expr], Expr | None]


class Grouping:
    """Reads expressions over groups: keys, aggregates, and what is computed from them."""

    def __init__(self, row: Translator, keys: tuple[Expr, ...], refs: tuple[Expr, ...], aggregate: Aggregate) -> None:
        """Take the keys, what stands for each, and how aggregates are read."""
        self._row, self._keys, self._refs, self._aggregate = row, keys, refs, aggregate
        self.aliases: dict[str, exp.Expr] = {}
        self._open: set[str] = set()
        self.over = Translator(row.refuse, self._column, self._hook)

    def _hook(self, node: exp.Expr) -> Expr | None:
        found = self._aggregate(node)
        if found is not None or isinstance(node, exp.Literal) or node.find(exp.AggFunc, exp.Window, exp.Query):
            return found
        try:
            key = self._row(node)
        except QueryRefused:
            return None  # an alias is within, or the rules refuse it again
        return next((ref for known, ref in zip(self._keys, self._refs, strict=True) if known == key), None)

    def _column(self, node: exp.Column) -> Expr:
        name = node.name.casefold()
        if not node.table and name in self.aliases and name not in self._open:
            self._open.add(name)
            found = self.over(self.aliases[name])
            self._open.discard(name)
            return found
        self._row(node)  # refuses what does not exist
        raise self._row.refuse(
            node,
            "this column is neither a key nor within an aggregate, so that it would show rows",
            "Add it to GROUP BY",
        )


def group_keys(node: exp.Select, row: Translator, aliases: Mapping[str, exp.Expr]) -> tuple[Expr, ...]:
    """Return the keys of GROUP BY, which may be places in SELECT or names given there."""
    clause, found = node.args.get("group"), []
    for key in clause.expressions if clause is not None else ():
        inner = key
        if isinstance(key, exp.Literal) and not key.is_string:
            place = int(key.this) if key.this.isdecimal() else 0
            if not 1 <= place <= len(node.expressions):
                raise row.refuse(key, "there is no such place in SELECT")
            inner = node.expressions[place - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table and key.name.casefold() in aliases:
            inner = aliases[key.name.casefold()]
        if inner.find(exp.AggFunc):
            raise row.refuse(inner, "a key cannot contain an aggregate")
        translated = row(inner)
        if translated not in found:
            found.append(translated)
    return tuple(found)


def check_aliases(refuse: Refuser, node: exp.Select, knows: Callable[[str], bool]) -> dict[str, exp.Expr]:
    """Return the names given in SELECT, refusing those that could be mistaken for others where they are used."""
    found: dict[str, exp.Expr] = {}
    used = {
        part.name.casefold()
        for clause in ("group", "having", "order")
        for part in (node.args[clause].find_all(exp.Column) if node.args.get(clause) else ())
        if not part.table
    }
    for item in node.expressions:
        if not isinstance(item, exp.Alias):
            continue
        name = item.alias.casefold()
        same = isinstance(item.this, exp.Column) and item.this.name.casefold() == name
        column = knows(item.alias)
        if name in found or (column and not same and name in used):
            raise refuse(item, f"the name {item.alias} is taken by another column", "Names differ in more than case")
        if not column:
            found[name] = item.this
    return found


class _Aggregates:
    """The aggregates of a subquery, each under a name."""

    def __init__(self, row: Translator, alias: str) -> None:
        self.found: list[Expr] = []
        self._row, self._alias = row, alias

    def __call__(self, node: exp.Expr) -> Expr | None:
        rule = _RULES.get(type(node))
        if rule is None:
            if isinstance(node, exp.AggFunc):
                raise self._row.refuse(node, *reason(node))
            return None
        found = rule(self._row, node)
        if found not in self.found:
            self.found.append(found)
        return replace(found, op="column", args=(), value=(self._alias, f"a{self.found.index(found)}"))


def per_unit_select(
    node: exp.Select, origin: Origin, where: Expr | None, row: Translator, knows: Callable[[str], bool], alias: str
) -> QueryRelation:
    """Return a subquery with aggregates as a relation, provided that it groups by the unit."""
    aliases = check_aliases(row.refuse, node, knows)
    keys = group_keys(node, row, aliases)
    owner = origin.owner
    if owner is not None:
        _check_grouped_by_unit(node, owner, keys, row.refuse)
    refs = tuple(replace(key, op="column", args=(), value=(alias, f"k{place}")) for place, key in enumerate(keys))
    aggregates = _Aggregates(row, alias)
    grouping = Grouping(row, keys, refs, aggregates)
    grouping.aliases, over = aliases, grouping.over
    items = [_item(item, over) for item in node.expressions]
    having = None if node.args.get("having") is None else over.truth(node.args["having"].this)
    units, entity = (owner.relation.units, owner.relation.entity) if owner else (0, "")
    inner = PerUnit(
        origin,
        where,
        tuple((f"k{place}", key) for place, key in enumerate(keys)),
        tuple((f"a{place}", found) for place, found in enumerate(aggregates.found)),
    )
    source = NamedRelation(alias, QueryRelation(inner, (), units, entity))
    fields = tuple(
        Field(name, f"c{place}", replace(found, op="column", args=(), value=None))
        for place, (name, found) in enumerate(items)
    )
    if len({name.casefold() for name, _ in items}) != len(items):
        raise row.refuse(node, "two columns have one name", "Write AS with another name")
    body = Chosen(
        Origin(source, (), source if units else None),
        having,
        tuple((f"c{place}", found) for place, (_, found) in enumerate(items)),
    )
    return QueryRelation(body, fields, units, entity)


def _check_grouped_by_unit(node: exp.Select, owner: NamedRelation, keys: tuple[Expr, ...], refuse: Refuser) -> None:
    if owner.relation.units > 1:
        raise refuse(
            node, "a subquery cannot aggregate where the unit is a user within a window", "Use a table by user"
        )
    if not any(key.unit and key.op == "column" for key in keys):
        raise refuse(
            node,
            "a subquery that aggregates over units is refused: its rows would belong to no unit",
            "Add the unit to its GROUP BY",
        )


def _item(node: exp.Expr, over: Translator) -> tuple[str, Expr]:
    if not node.alias_or_name:
        raise over.refuse(node, "a column of a subquery needs a name", "Write AS name")
    return node.alias_or_name, over(node.unalias())


def _count(to: Translator, node: exp.Count) -> Expr:
    to.refuse.only(node, "this", "big_int")
    if isinstance(node.this, exp.Star):
        return Expr("count_rows", ColumnKind.FLOAT, low=0.0, whole=True)
    if isinstance(node.this, exp.Distinct):
        if len(node.this.expressions) != 1:
            raise to.refuse(node, "COUNT(DISTINCT ...) takes one column")
        return Expr("distinct_of", ColumnKind.FLOAT, (to(node.this.expressions[0]),), low=0.0, whole=True)
    return Expr("count_of", ColumnKind.FLOAT, (to(node.this),), low=0.0, whole=True)


def _total(op: str) -> Callable[[Translator, Any], Expr]:
    def rule(to: Translator, node: exp.Func) -> Expr:
        to.refuse.only(node, "this")
        inner = to.number(node.this)
        if not inner.bounded:
            # Sums of floating-point numbers depend on the order of rows, and with it on other units.
            raise to.refuse(node, "a sum needs bounds", "Declare bounds, or write LEAST(GREATEST(x, 0), 100)")
        found = numeric(op, inner)
        return replace(found, low=inner.low, high=inner.high) if op == "mean_of" else found

    return rule


def _extreme(op: str) -> Callable[[Translator, Any], Expr]:
    def rule(to: Translator, node: exp.Func) -> Expr:
        to.refuse.only(node, "this")
        inner = to(node.this)
        return replace(inner, op=op, args=(inner,), value=None, unit=False, required=False)

    return rule


_RULES: Mapping[type[exp.Expr], Callable[[Translator, Any], Expr]] = {
    exp.Count: _count,
    exp.Sum: _total("sum_of"),
    exp.Avg: _total("mean_of"),
    exp.Min: _extreme("min_of"),
    exp.Max: _extreme("max_of"),
}

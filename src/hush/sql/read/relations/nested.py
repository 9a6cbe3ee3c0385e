"""Subqueries in conditions: EXISTS, IN and scalar subqueries.

Such a subquery reads public tables only; or it reads only rows of the unit that the condition is about. The
plan equates the units itself. A query that does not equate them itself is refused, because its answer would differ from
what it asks for.

| subquery | supported |
|---|---|
| EXISTS (SELECT ... WHERE ...) | on public tables, or with inner.unit = outer.unit in WHERE |
| x IN (SELECT y ...) | on public tables, or if x and y are units, or keys that lead to them |
| (SELECT AVG(y) ... WHERE ...) | one row of aggregates: likewise, without GROUP BY |

WHERE of a subquery may name columns of the enclosing query. x NOT IN (...) compares with rows of the same unit only: a
NULL in the rows of another unit, which would make it NULL in plain SQL, has no effect. A scalar subquery without an
aggregate would fail if it had two rows, and so reveal that it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.grouping import Grouping, is_aggregated, unit_aggregate
from hush.sql.read.relations.joins import (
    NESTED_ADVICE,
    WIDE_SUBQUERY,
    aliases_above,
    check_comparable,
    equated_by,
    reached,
)
from hush.sql.read.relations.scope import Scope
from hush.sql.read.relations.tables import column_of
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import Expr, literal
from hush.sql.syntax.relation import NamedRelation, NestedQuery, Origin, QueryRelation

if TYPE_CHECKING:
    from hush.sql.read.relations.reader import Reader

NO_CONDITION = literal(True, ColumnKind.BOOL)
_KINDS = (ColumnKind.INT, ColumnKind.FLOAT)


class NestedReader:
    """Translates the subqueries of one condition. It is a hook of a `Translator`: None stands for all other nodes."""

    def __init__(self, reader: Reader, scope: Scope, common: Mapping[str, QueryRelation]) -> None:
        """Take the reader of FROM clauses, and the names that the condition can use."""
        self._reader, self._scope, self._common = reader, scope, common
        self._refuse = reader.refuse

    def __call__(self, node: exp.Expr) -> Expr | None:
        """Return the expression of a subquery."""
        if isinstance(node, exp.Exists):
            self._refuse.unless_only(node, "this")
            return self._exists(node.this)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            self._refuse.unless_only(node, "this", "query")
            return self._member(node)
        if isinstance(node, exp.Subquery):
            self._refuse.unless_only(node, "this")
            return self._scalar(node.this)
        return None

    def _exists(self, node: exp.Expr) -> Expr:
        """Return EXISTS. What it selects does not matter."""
        select = node.this if isinstance(node, exp.Subquery) else node
        if not isinstance(select, exp.Select) or is_aggregated(select):
            origin, where = self._relation(node, None), NO_CONDITION
        else:
            origin, where, _ = self._select(select)
        return Expr("exists", ColumnKind.BOOL, (where,), self._query(origin))

    def _member(self, node: exp.In) -> Expr:
        """Return x IN (SELECT y ...)."""
        row = Translator(self._refuse, self._scope.resolve, self)
        member, select = row(node.this), node.args["query"].this
        if isinstance(select, exp.Select) and not is_aggregated(select) and len(select.expressions) == 1:
            origin, where, scope = self._select(select, member)
            item = Translator(self._refuse, scope.resolve)(select.expressions[0].unalias())
        else:
            origin, where = self._relation(node.args["query"], member), NO_CONDITION
            item = column_of(origin.first, origin.first.relation.fields[0])
        if member.kind is not item.kind:
            if not {member.kind, item.kind} <= set(_KINDS):
                raise self._refuse(
                    node, "the two sides of IN are of different kinds", "Use CAST to convert one of them"
                )
            member, item = row.as_number(member, node), row.as_number(item, node)
        return Expr("in_query", ColumnKind.BOOL, (member, item, where), self._query(origin))

    def _scalar(self, node: exp.Expr) -> Expr:
        """Return a subquery that has one row, with one value."""
        select = node.this if isinstance(node, exp.Subquery) else node
        one_value = isinstance(select, exp.Select) and len(select.expressions) == 1 and is_aggregated(select)
        if not isinstance(select, exp.Select) or not one_value or select.args.get("group") or select.args.get("having"):
            why = "a subquery in an expression must have one row: an aggregate without GROUP BY"
            raise self._refuse(node, why, "Write (SELECT MAX(x) FROM ... WHERE ...), or use IN or EXISTS")
        origin, where, scope = self._select(select)
        row, query = Translator(self._refuse, replace(scope, parent=None).resolve), self._query(origin)

        def scalar(part: exp.Expr) -> Expr | None:
            # Arithmetic stays outside: PostgreSQL's would put the aggregate into a FROM of its own.
            aggregate = unit_aggregate(row, part)
            if aggregate is None:
                return None
            return replace(aggregate, op="scalar", args=(aggregate, where), value=query, domain=None)

        return Grouping(row, (), (), scalar).translate(select.expressions[0].unalias())

    def _select(self, select: exp.Select, member: Expr | None = None) -> tuple[Origin, Expr, Scope]:
        """Return the FROM clause and the condition of a subquery, which may name columns of the enclosing query."""
        self._reader.check_parts(select)
        common = self._reader.common_tables(select, self._common)
        origin, scope = self._reader.origin(select, common, self._scope, member)
        return origin, self._reader.where(select, scope, common) or NO_CONDITION, scope

    def _relation(self, node: exp.Expr, member: Expr | None) -> Origin:
        """Return a subquery that names no columns of the enclosing query, such as one with GROUP BY."""
        from_item = NamedRelation(next(self._reader.aliases), self._reader.select(node, self._common))
        relation = from_item.relation
        if member is not None and len(relation.fields) != 1:
            raise self._refuse(node, "the subquery of IN must have one column", "Name it in SELECT")
        if not relation.private:
            return Origin(from_item, (), None)
        pairs = [] if member is None else equated_by(member, column_of(from_item, relation.fields[0]))
        above = aliases_above(Scope(self._refuse, parent=self._scope))
        outer = Scope(self._refuse, parent=self._scope).owner_above()
        if outer is None or from_item.alias not in reached(above, pairs):
            raise self._refuse(node, WIDE_SUBQUERY, *NESTED_ADVICE)
        check_comparable(self._refuse, node, outer, from_item)
        return Origin(from_item, (), from_item)

    def _query(self, origin: Origin) -> NestedQuery:
        """Return a subquery with the tables whose units the plan equates."""
        if origin.owner is None:
            return NestedQuery(origin, None)
        outer = Scope(self._refuse, parent=self._scope).owner_above()
        if outer is None:
            raise self._refuse(None, WIDE_SUBQUERY, *NESTED_ADVICE)
        return NestedQuery(origin, (origin.owner.alias, outer.alias))

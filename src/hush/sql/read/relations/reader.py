"""Reads the tables, joins, CTEs and subqueries of a query.

`Reader` turns a FROM clause into a typed tree (`hush.sql.syntax.relation`). It checks that each row of the result
belongs to one unit: private tables are joined on their units only (`hush.sql.read.relations.joins`), and a LEFT JOIN
keeps no rows of a public table that no unit matches.

| FROM | rows belong to | condition |
|---|---|---|
| private JOIN private | the unit of both | must equate the units, or keys that lead to them |
| private LEFT JOIN private | the unit of the left side | likewise, in ON; the right side's unit may be NULL |
| private JOIN or LEFT JOIN public | the unit of the private side | any |
| public JOIN private | the unit of the private side | any |
| public LEFT JOIN private | refused | whether a row has a match depends on all units |
| a comma or CROSS JOIN | as for JOIN | WHERE may equate the units |
| RIGHT JOIN as the first join | as for LEFT JOIN with its sides swapped | |
| NATURAL JOIN | as for JOIN with USING | |
| UNION ALL | each row as in its part | all parts have one kind of unit, or are public |
| FULL, SEMI and other joins | refused | write JOIN or LEFT JOIN |

One row of a unit may match many rows of a public table. This multiplies the unit's rows, but not its contribution,
which is bounded after the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from sqlglot import exp, parse_one

from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable, Through
from hush.sql.read.grouping import is_aggregated, per_unit_select
from hush.sql.read.relations.joins import (
    JOIN_ADVICE,
    NESTED_ADVICE,
    PUBLIC_ADVICE,
    WIDE_JOIN,
    WIDE_SUBQUERY,
    Pair,
    aliases_above,
    all_of,
    check_comparable,
    conjuncts,
    equated_by,
    equated_units,
    join_condition,
    reached,
    unmark_unit,
)
from hush.sql.read.relations.nested import NestedReader
from hush.sql.read.relations.scope import Scope, shortened
from hush.sql.read.relations.tables import column_of, referring, scan
from hush.sql.read.relations.union import name_columns, union_all, union_parts
from hush.sql.read.relations.windows import window_functions
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.reasons import not_a_select, reason, unknown_function
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.relation import Field, Join, NamedRelation, Origin, Projection, QueryRelation

CommonTables = Mapping[str, QueryRelation]  # what WITH defines, by name in lower case
JOIN_PARTS = ("side", "kind", "method", "on", "using")
SELECT_PARTS = ("with_", "expressions", "from_", "joins", "where", "group", "having")


class Reader:
    """Reads FROM clauses. Use one reader per query: it numbers relations and their aliases."""

    def __init__(self, catalog: Catalog, refuse: Refuser) -> None:
        """Take the declared tables."""
        self._catalog = catalog.tables
        self._spelling = {name.casefold(): name for name in catalog.tables}
        self._referring: dict[str, QueryRelation] = {}  # tables that have their unit through others, each once
        self.refuse = refuse
        self.aliases: Iterator[str] = (f"r{number}" for number in count(1))
        self.names: Iterator[str] = (f"hush_subquery{number}" for number in count())

    def common_tables(self, select: exp.Expr, outer: CommonTables) -> CommonTables:
        """Return the relations that WITH defines, together with those of the enclosing queries."""
        clause = select.args.get("with_")
        tables = dict(outer)
        if clause is None:
            return tables
        if clause.args.get("recursive"):
            raise self.refuse(clause, "recursive queries are refused: their sensitivity has no bound")
        for entry in clause.expressions:
            self.refuse.unless_only(entry, "this", "alias")
            name = entry.alias.casefold()
            if name in tables or name in self._spelling:
                raise self.refuse(entry, f"the name {entry.alias} is already taken", "Choose a name that no table has")
            tables[name] = self._named_columns(entry, tables)
        return tables

    def origin(
        self, select: exp.Select, common: CommonTables, outer: Scope | None = None, member: Expr | None = None
    ) -> tuple[Origin, Scope]:
        """Return the FROM clause with its joins, and the scope of its columns.

        Args:
            select: The SELECT.
            common: The common table expressions.
            outer: The scope of the enclosing SELECT, for a subquery in its condition. Private tables must then be
                equated with those of the enclosing SELECT.
            member: For x IN (SELECT y ...): x, which is equal to y.
        """
        clause = select.args.get("from_")
        if clause is None:
            raise self.refuse(select, "a query without FROM has no data", "Name a table")
        scope = Scope(self.refuse, parent=outer)
        private, joins, pairs = [], [], []
        for node in (clause, *(select.args.get("joins") or ())):
            join, equated = self._join(node, common, scope)
            joins.append(join)
            pairs += equated
            if join.item.relation.private and not join.left:
                private.append((node.this, join.item))
        pairs += equated_units(conjuncts(select.args.get("where")), scope.resolve)
        item = None if member is None else select.expressions[0].unalias()
        if member is not None and isinstance(item, exp.Column):
            pairs += equated_by(member, scope.resolve(item))
        self._check_same_units(private, pairs, scope)
        return Origin(joins[0].item, tuple(joins[1:]), scope.owner), scope

    def _check_same_units(self, private: list[tuple[exp.Expr, NamedRelation]], pairs: list[Pair], scope: Scope) -> None:
        """Refuse private tables whose units the query does not equate with those of the others."""
        nested = scope.parent is not None
        start = aliases_above(scope) if nested else {from_item.alias for _, from_item in private[:1]}
        same = reached(start, pairs)
        for node, from_item in private:
            owner = scope.owner_above() if nested else scope.owner
            if owner is None:
                raise self.refuse(node, "which rows of a public table count would depend on all units", PUBLIC_ADVICE)
            if from_item is not owner:
                check_comparable(self.refuse, node, owner, from_item)
            if from_item.alias not in same:
                words = (WIDE_SUBQUERY, *NESTED_ADVICE) if nested else (WIDE_JOIN, JOIN_ADVICE)
                raise self.refuse(node, *words)

    def select(self, node: exp.Expr, outer: CommonTables) -> QueryRelation:
        """Return a subquery as a relation."""
        if isinstance(node, exp.Subquery):
            self.refuse.unless_only(node, "this", "alias")
            return self.select(node.this, outer)
        parts = union_parts(self.refuse, node)
        if parts:
            common = self.common_tables(node, outer)
            name_columns(parts, [item.alias_or_name for item in parts[0].expressions])
            relations = [self.select(part, common) for part in parts]
            return union_all(self.refuse, parts, relations, self.names, self.aliases)
        if not isinstance(node, exp.Select):
            raise self.refuse(node, *not_a_select(node))
        self.check_parts(node)
        common = self.common_tables(node, outer)
        origin, scope = self.origin(node, common)
        row = Translator(self.refuse, scope.resolve)
        where = self.where(node, scope, common)
        if is_aggregated(node):
            return per_unit_select(node, origin, where, row, scope.has_column, self.names, next(self.aliases))
        with_windows = Translator(self.refuse, scope.resolve, window_functions(row, origin))
        items = tuple(column for item in node.expressions for column in self._columns(item, with_windows, scope))
        return project(self.refuse, node, origin, where, items, next(self.names))

    def check_parts(self, node: exp.Select) -> None:
        """Refuse a subquery with clauses that no subquery can have."""
        check_clauses(self.refuse, node, *SELECT_PARTS)

    def where(self, node: exp.Select, scope: Scope, common: CommonTables) -> Expr | None:
        """Return the condition of a SELECT, which may contain subqueries."""
        clause = node.args.get("where")
        if clause is None:
            return None
        return Translator(self.refuse, scope.resolve, NestedReader(self, scope, common)).condition(clause.this)

    def _columns(self, node: exp.Expr, row: Translator, scope: Scope) -> list[tuple[str, Expr]]:
        """Return the names and the expressions of the columns that an item of a subquery stands for."""
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            self.refuse.unless_only(star)
            return scope.all_columns(node)
        inner = node.this if isinstance(node, exp.Alias) else node
        if not node.alias_or_name:
            raise self.refuse(node, "a column of a subquery needs a name", "Write AS name")
        return [(node.alias_or_name, row(inner))]

    def _named_columns(self, node: exp.Expr, common: CommonTables) -> QueryRelation:
        """Return a subquery whose alias may name its columns, as in (SELECT ...) AS t(a, b)."""
        alias = node.args.get("alias")
        names = [] if alias is None else [identifier.name for identifier in alias.args.get("columns") or ()]
        if alias is not None:
            self.refuse.unless_only(alias, "this", "columns")
        name_columns(union_parts(self.refuse, node.this)[:1] or [node.this], names)
        relation = self.select(node.this, common)
        if not names:
            return relation
        if len(names) != len(relation.fields) or len({name.casefold() for name in names}) != len(names):
            raise self.refuse(
                node, "the names after AS are not as many as the columns, or not distinct", "Name each once"
            )
        fields = zip(names, relation.fields, strict=True)
        return replace(relation, fields=tuple(replace(entry, name=name) for name, entry in fields))

    def _from_item(self, node: exp.Expr, common: CommonTables, scope: Scope) -> NamedRelation:
        """Return a table, a CTE or a subquery of FROM, and add it to the scope."""
        if isinstance(node, exp.Subquery):
            self.refuse.unless_only(node, "this", "alias")
            if not node.alias:
                raise self.refuse(node, "a subquery needs a name", "Write (SELECT ...) AS name")
            relation = self._named_columns(node, common)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if node.args.get("sample") is not None:
                raise self.refuse(node, "TABLESAMPLE is not supported: samples differ from run to run", "Leave it out")
            self.refuse.unless_only(node, "this", "alias")
            if node.args.get("alias") is not None:
                self.refuse.unless_only(node.args["alias"], "this")
            relation = self._table(node, common)
        elif isinstance(node, exp.Table):
            raise self.refuse(node, *unknown_function(node.this.name or "this function"))
        else:
            raise self.refuse(node, *reason(node))
        from_item = NamedRelation(next(self.aliases), relation)
        scope.add(node, node.alias_or_name, from_item)
        return from_item

    def _table(self, node: exp.Table, common: CommonTables) -> QueryRelation:
        """Return a CTE or a declared table by its name."""
        name = node.name.casefold()
        if name in common:
            return common[name]
        if name not in self._spelling:
            names = list(self._catalog)
            raise self.refuse(node, "no table of this name is declared", f"The tables are {shortened(names)}")
        return self._restricted(node, self._spelling[name])

    def _declared(self, name: str) -> QueryRelation:
        """Return a declared table, each of whose rows has its unit."""
        table = self._catalog[name]
        if not isinstance(table, PrivateTable) or not isinstance(table.unit, Through):
            return scan(name, self._catalog)
        if name not in self._referring:
            target = self._declared(table.unit.to)
            rows = scan(name, self._catalog)
            self._referring[name] = referring(table.unit, rows, target, self.names, self.aliases)
        return self._referring[name]

    def _restricted(self, node: exp.Table, name: str) -> QueryRelation:
        """Return a table without the rows that its ``only`` excludes."""
        table, all_rows = self._catalog[name], self._declared(name)
        if not isinstance(table, PrivateTable) or table.only is None:
            return all_rows
        scope, from_item = Scope(self.refuse), NamedRelation(next(self.aliases), all_rows)
        scope.add(node, name, from_item)
        where = Translator(self.refuse, scope.resolve).condition(parse_one(table.only, dialect=""))
        fields = [entry for entry in all_rows.fields if entry.prototype.kind is not ColumnKind.OTHER]
        items = tuple((entry.name, column_of(from_item, entry)) for entry in fields)
        return project(self.refuse, node, Origin(from_item, (), from_item), where, items, next(self.names))

    def _join(self, node: exp.Expr, common: CommonTables, scope: Scope) -> tuple[Join, list[Pair]]:
        """Return a join, and the pairs of tables whose units its condition equates.

        Args:
            node: The join; or the clause FROM, whose table is joined with nothing.
            common: The common table expressions.
            scope: The tables before it, to which its own is added.
        """
        self.refuse.unless_only(node, "this", *(JOIN_PARTS if isinstance(node, exp.Join) else ()))
        side, kind, method = ((node.args.get(part) or "").upper() for part in ("side", "kind", "method"))
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
            raise self.refuse(node, f"{side or method or kind} JOIN is not supported", "Write JOIN or LEFT JOIN")
        before, owner = dict(scope.from_items), scope.owner
        from_item = self._from_item(node.this, common, scope)
        left, private = side == "LEFT", from_item.relation.private
        if left and private and owner is None:
            raise self.refuse(
                node, "whether a row of the public table has no match depends on all units", "Write JOIN instead"
            )
        # ON names columns of its own SELECT: not every engine takes those of an enclosing one there.
        parts = join_condition(self.refuse, node, replace(scope, parent=None), before, from_item)
        pairs = [pair for part in parts if part.op == "eq" for pair in equated_by(*part.args)]
        if private and owner is None:
            scope.owner = from_item
        if private and owner is not None and left:
            check_comparable(self.refuse, node, owner, from_item)
            if not any(from_item.alias in pair for pair in pairs):
                raise self.refuse(node, WIDE_JOIN, JOIN_ADVICE)
            unmark_unit(scope, from_item)  # a row without a match has NULL for this unit, which then identifies no unit
        return Join(from_item, left, private and owner is not None, all_of(parts)), [] if left else pairs


def project(
    refuse: Refuser,
    node: exp.Expr,
    origin: Origin,
    where: Expr | None,
    items: tuple[tuple[str, Expr], ...],
    relation_name: str,
) -> QueryRelation:
    """Return the rows of an origin that meet a condition, with the columns ``items``, as a relation."""
    fields: list[Field] = []
    for index, (name, item) in enumerate(items):
        if any(entry.name.casefold() == name.casefold() for entry in fields):
            raise refuse(node, f"two columns are named {name}", "Rename one of them with AS")
        fields.append(Field(name, f"c{index}", replace(item, op="column", args=(), value=None)))
    named = tuple((f"c{index}", item) for index, (_, item) in enumerate(items))
    owner = origin.owner
    units, id_kind = (owner.relation.units, owner.relation.id_kind) if owner else (0, None)
    return QueryRelation(Projection(origin, where, named), tuple(fields), units, id_kind, relation_name)


def check_clauses(refuse: Refuser, node: exp.Select, *allowed: str) -> None:
    """Refuse a SELECT with clauses other than these."""
    if node.args.get("distinct") and "distinct" not in allowed:
        raise refuse(node, "SELECT DISTINCT would return rows, and only aggregates are released", "Use GROUP BY")
    for name in ("qualify", "windows"):
        if node.args.get(name) and name not in allowed:
            raise refuse(node.args[name] if name == "qualify" else node, *reason(exp.Window()))
    for name, keyword in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if node.args.get(name) and name not in allowed:
            why = f"{keyword} in a subquery is refused: which rows remain would depend on other units' rows"
            raise refuse(node.args[name], why, "Use it in the outer query")
    refuse.unless_only(node, *allowed)
    if node.args.get("group") is not None:
        refuse.unless_only(node.args["group"], "expressions")

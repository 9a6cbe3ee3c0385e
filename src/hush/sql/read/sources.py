"""What a query reads: tables, joins, CTEs and subqueries, checked to keep one unit per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import shorten

from sqlglot import exp, parse_one

from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable, PublicTable, kind_of
from hush.sql.read.per_unit import per_unit_select
from hush.sql.read.translate import Translator
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.reasons import reason, statement, unknown
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.relation import Chosen, Field, Join, NamedRelation, Origin, QueryRelation, Scan, ScannedColumn

Shared = Mapping[str, QueryRelation]
SELECT_PARTS = ("with_", "expressions", "from_", "joins", "where", "group", "having")
_JOIN_ADVICE = "Write JOIN b ON a.unit = b.unit, or join a table that is declared public"


@dataclass(slots=True)
class Scope:
    """The names that expressions of one SELECT can use."""

    refuse: Refuser
    sources: dict[str, NamedRelation] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)  # columns of USING, which stand for both sides
    names: list[str] = field(default_factory=list)

    def add(self, node: exp.Expr, name: str, source: NamedRelation) -> None:
        """Add a source under its name."""
        if name.casefold() in self.sources:
            raise self.refuse(node, f"the name {name} is used twice", "Give each table an alias of its own")
        self.sources[name.casefold()] = source
        self.names.append(name)

    def resolve(self, node: exp.Column) -> Expr:
        """Return the column that a name stands for, in any case, quoted or not."""
        if isinstance(node.this, exp.Star):
            raise self.refuse(node, *reason(node.this))
        table, name = node.table.casefold(), node.name.casefold()
        if table and table not in self.sources:
            if self.knows(table):
                raise self.refuse(
                    node, f"{node.table} is a column, and parts of a column are not supported", "Make a view of them"
                )
            raise self.refuse(node, "no table of this name is in FROM", f"There are: {listed(self.names)}")
        places = [self.sources[table]] if table else list(self.sources.values())
        found = [column(source, name) for source in places]
        hits = [hit for hit in found if hit is not None]
        if not hits:
            there = [entry.name for source in places for entry in source.relation.fields]
            raise self.refuse(node, "no column of this name is known here", f"There are: {listed(there)}")
        if len(hits) > 1 and name not in self.merged:
            raise self.refuse(node, "more than one table has a column of this name", "Write table.column")
        if hits[0].kind is ColumnKind.OTHER:
            raise self.refuse(
                node,
                "columns of this type are not supported",
                "Supported: numbers, text, booleans, dates, timestamps without a time zone",
                "Of one with a time zone, make a view with (column AT TIME ZONE 'UTC')",
            )
        return hits[0]

    def knows(self, name: str) -> bool:
        """Return whether a column of this name exists."""
        return any(column(source, name.casefold()) is not None for source in self.sources.values())


def column(source: NamedRelation, name: str) -> Expr | None:
    """Return a column of a source by its name."""
    for entry in source.relation.fields:
        if entry.name.casefold() == name:
            return replace(entry.about, op="column", args=(), value=(source.alias, entry.column))
    return None


class Reader:
    """Reads FROM clauses. One reader plans one query, so that every relation gets a name of its own."""

    def __init__(self, catalog: Catalog, refuse: Refuser) -> None:
        """Take the tables that there are."""
        self._tables = {name.casefold(): (name, table) for name, table in catalog.tables.items()}
        self.refuse = refuse
        self._count = 0

    def shared(self, select: exp.Select, outer: Shared) -> Shared:
        """Return the relations that WITH names, beside those of the queries around it."""
        clause = select.args.get("with_")
        found = dict(outer)
        if clause is None:
            return found
        if clause.args.get("recursive"):
            raise self.refuse(clause, "recursive queries are refused", "Their sensitivity has no bound")
        for entry in clause.expressions:
            self.refuse.only(entry, "this", "alias")
            self.refuse.only(entry.args["alias"], "this")
            name = entry.alias.casefold()
            if name in found or name in self._tables:
                raise self.refuse(entry, f"the name {entry.alias} is taken", "Choose a name that no table has")
            found[name] = self.select(entry.this, found)
        return found

    def origin(self, select: exp.Select, shared: Shared) -> tuple[Origin, Scope]:
        """Return what FROM and its joins stand for, and the names that they bring."""
        clause = select.args.get("from_")
        if clause is None:
            raise self.refuse(select, "a query without FROM has no data", "Name a table")
        scope = Scope(self.refuse)
        first = self._source(clause.this, shared, scope)
        owner = first if first.relation.private else None
        joins: list[Join] = []
        for node in select.args.get("joins") or ():
            join, owner = self._join(node, shared, scope, owner)
            joins.append(join)
        return Origin(first, tuple(joins), owner), scope

    def select(self, node: exp.Expr, outer: Shared) -> QueryRelation:
        """Return a subquery as a relation."""
        if isinstance(node, exp.Subquery):
            self.refuse.only(node, "this", "alias")
            return self.select(node.this, outer)
        if not isinstance(node, exp.Select):
            raise self.refuse(node, *statement(node))
        check_clauses(self.refuse, node, *SELECT_PARTS)
        shared = self.shared(node, outer)
        origin, scope = self.origin(node, shared)
        row = Translator(self.refuse, scope.resolve)
        where = None if node.args.get("where") is None else row.truth(node.args["where"].this)
        self._check_windows(node)
        if (
            node.args.get("group")
            or node.args.get("having")
            or any(item.find(exp.AggFunc) for item in node.expressions)
        ):
            return per_unit_select(node, origin, where, row, scope.knows, self.fresh())
        items = tuple(self._item(item, row) for item in node.expressions)
        return chosen(self.refuse, node, origin, where, items)

    def fresh(self) -> str:
        """Return a name for a relation that no other has."""
        self._count += 1
        return f"r{self._count}"

    def _check_windows(self, node: exp.Select) -> None:
        for item in node.expressions:
            if (found := item.find(exp.Window)) is not None:
                raise self.refuse(found, *reason(found))

    def _item(self, node: exp.Expr, row: Translator) -> tuple[str, Expr]:
        inner = node.this if isinstance(node, exp.Alias) else node
        if not node.alias_or_name:
            raise self.refuse(node, "a column of a subquery needs a name", "Write AS name")
        return node.alias_or_name, row(inner)

    def _source(self, node: exp.Expr, shared: Shared, scope: Scope) -> NamedRelation:
        if isinstance(node, exp.Subquery):
            self.refuse.only(node, "this", "alias")
            if not node.alias:
                raise self.refuse(node, "a subquery needs a name", "Write (SELECT ...) AS name")
            relation = self.select(node.this, shared)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if node.args.get("sample") is not None:
                raise self.refuse(node, "TABLESAMPLE is not supported: samples differ from run to run", "Leave it out")
            self.refuse.only(node, "this", "alias")
            relation = self._named(node, shared)
        elif isinstance(node, exp.Table):
            raise self.refuse(node, *unknown(node.this.name or "this function"))
        else:
            raise self.refuse(node, *reason(node))
        if node.args.get("alias") is not None:
            self.refuse.only(node.args["alias"], "this")
        source = NamedRelation(self.fresh(), relation)
        scope.add(node, node.alias_or_name, source)
        return source

    def _named(self, node: exp.Table, shared: Shared) -> QueryRelation:
        name = node.name.casefold()
        if name in shared:
            return shared[name]
        if name not in self._tables:
            there = [name for name, _ in self._tables.values()]
            raise self.refuse(node, "no table of this name is declared", f"There are: {listed(there)}")
        return self._narrowed(node, *self._tables[name])

    def _narrowed(self, node: exp.Table, name: str, table: PrivateTable | PublicTable) -> QueryRelation:
        """Return a table, of which queries may see only some rows."""
        whole = scan(name, table)
        if isinstance(table, PublicTable) or table.only is None:
            return whole
        scope, source = Scope(self.refuse), NamedRelation(self.fresh(), whole)
        scope.add(node, name, source)
        where = Translator(self.refuse, scope.resolve).truth(parse_one(table.only, dialect=""))
        items = tuple((each.name, found) for each in whole.fields if (found := column(source, each.name.casefold())))
        return chosen(self.refuse, node, Origin(source, (), source), where, items)

    def _join(
        self, node: exp.Join, shared: Shared, scope: Scope, owner: NamedRelation | None
    ) -> tuple[Join, NamedRelation | None]:
        self.refuse.only(node, "this", "side", "kind", "on", "using")
        side, kind = (node.args.get("side") or "").upper(), (node.args.get("kind") or "").upper()
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER"):
            raise self.refuse(node, f"{side or kind} JOIN is not supported", "Write JOIN or LEFT JOIN")
        before = dict(scope.sources)
        source = self._source(node.this, shared, scope)
        left, private = side == "LEFT", source.relation.private
        if left and private and owner is None:
            raise self.refuse(node, "rows of a public table that no unit matches depend on all units", "Write JOIN")
        condition, on_unit = self._condition(node, scope, before, source)
        if private and owner is not None:
            self._check_same_unit(node, owner, source, on_unit)
            if left:  # the right side may be missing, so that its unit column no longer names the unit
                _forget_unit(scope, source)
        return Join(source, left, private and owner is not None, condition), owner or (source if private else None)

    def _check_same_unit(self, node: exp.Join, owner: NamedRelation, source: NamedRelation, on_unit: bool) -> None:
        if owner.relation.entity != source.relation.entity:
            raise self.refuse(
                node,
                "the tables' units are different entities, or of different types",
                "Declare one entity, of one type",
            )
        if owner.relation.units > 1 or source.relation.units > 1:
            raise self.refuse(node, "tables whose unit is a user within a window cannot be joined with each other")
        if not on_unit:
            raise self.refuse(node, "this join would combine rows of different units", _JOIN_ADVICE)

    def _condition(
        self, node: exp.Join, scope: Scope, before: dict[str, NamedRelation], source: NamedRelation
    ) -> tuple[Expr | None, bool]:
        """Return the join's condition, and whether it equates the units of both sides."""
        row = Translator(self.refuse, scope.resolve)
        if node.args.get("using"):
            parts = [self._using(name, before, source, scope) for name in node.args["using"]]
        elif node.args.get("on") is not None:
            parts = (
                [row.truth(part) for part in node.args["on"].flatten()]
                if isinstance(node.args["on"], exp.And)
                else [row.truth(node.args["on"])]
            )
        else:
            return None, False
        on_unit = any(part.op == "eq" and _equates_units(part, source) for part in parts)
        whole = parts[0]
        for part in parts[1:]:
            whole = Expr("and", ColumnKind.BOOL, (whole, part))
        return whole, on_unit

    def _using(self, name: exp.Expr, before: dict[str, NamedRelation], source: NamedRelation, scope: Scope) -> Expr:
        lower = name.name.casefold()
        lefts = [hit for other in before.values() if (hit := column(other, lower)) is not None]
        right = column(source, lower)
        if (len(lefts) != 1 and lower not in scope.merged) or right is None:
            raise self.refuse(name, "USING takes a column that both sides have, once")
        if lefts[0].kind is not right.kind or right.kind is ColumnKind.OTHER:
            raise self.refuse(name, "the two columns are of different kinds", "Use ON with CAST")
        scope.merged.add(lower)
        return Expr("eq", ColumnKind.BOOL, (lefts[0], right))


def scan(name: str, table: PrivateTable | PublicTable) -> QueryRelation:
    """Return a table as a relation: columns with bounds are numbers, whatever the file declares."""
    private = table if isinstance(table, PrivateTable) else None
    bounds = private.bounds if private else {}
    fields, columns = [], []
    for place, (raw, declared) in enumerate(table.columns.items()):
        kind = kind_of(declared)
        kind = ColumnKind.FLOAT if raw in bounds and kind is ColumnKind.TEXT else kind
        low, high = bounds.get(raw, (float("-inf"), float("inf")))
        keys = private.keys.get(raw) if private else None
        about = Expr("column", kind, (), None, low, high, kind is ColumnKind.INT, None if keys is None else tuple(keys))
        if private:
            unit = raw == private.unit
            about = replace(about, unit=unit, required=raw in private.required)
        columns.append(ScannedColumn(f"c{place}", raw, declared, kind))
        fields.append(Field(raw, f"c{place}", about))
    if private is None:
        return QueryRelation(Scan(name, tuple(columns), None, None, None), tuple(fields))
    by_name = {entry.raw: entry for entry in columns}
    time = by_name[private.time] if private.time else None
    body = Scan(name, tuple(columns), by_name[private.unit], time, private.window)
    # An engine would cast a number to compare it with text, and raise.
    written = "integer" if by_name[private.unit].kind is ColumnKind.INT else "text"
    return QueryRelation(body, tuple(fields), 1 if time is None else 2, f"{private.entity}, written as {written}")


def chosen(
    refuse: Refuser, node: exp.Expr, origin: Origin, where: Expr | None, items: tuple[tuple[str, Expr], ...]
) -> QueryRelation:
    """Return rows with computed columns as a relation."""
    fields: list[Field] = []
    for place, (name, found) in enumerate(items):
        if any(entry.name.casefold() == name.casefold() for entry in fields):
            raise refuse(node, f"the column {name} is named twice", "Write AS with another name")
        fields.append(Field(name, f"c{place}", replace(found, op="column", args=(), value=None)))
    named = tuple((f"c{place}", found) for place, (_, found) in enumerate(items))
    owner = origin.owner
    units, entity = (owner.relation.units, owner.relation.entity) if owner else (0, "")
    return QueryRelation(Chosen(origin, where, named), tuple(fields), units, entity)


def check_clauses(refuse: Refuser, node: exp.Select, *allowed: str) -> None:
    """Refuse clauses that are not among these, each with its reason."""
    if node.args.get("distinct"):
        raise refuse(node, "SELECT DISTINCT lists rows, and only aggregates are released", "Use GROUP BY")
    for name in ("qualify", "windows"):
        if node.args.get(name):
            raise refuse(node.args[name] if name == "qualify" else node, *reason(exp.Window()))
    if node.args.get("offset"):
        raise refuse(node.args["offset"], "OFFSET is not supported", "Leave out rows of the answer yourself")
    for name in ("order", "limit"):
        if node.args.get(name) and name not in allowed:
            why = "in a subquery it would choose rows by other units' rows"
            raise refuse(node.args[name], f"{name.upper()}: {why}", "Order and limit the answer of the whole query")
    refuse.only(node, *allowed)
    if node.args.get("group") is not None:
        refuse.only(node.args["group"], "expressions")


def listed(names: Sequence[str]) -> str:
    """Return names, which are public, for a message."""
    return shorten(", ".join(names), 300, placeholder=" ...")


def _equates_units(part: Expr, source: NamedRelation) -> bool:
    left, right = part.args
    if not (left.unit and right.unit and left.op == right.op == "column"):
        return False
    return bool((left.value[0] == source.alias) != (right.value[0] == source.alias))


def _forget_unit(scope: Scope, source: NamedRelation) -> None:
    fields = tuple(replace(f, about=replace(f.about, unit=False)) for f in source.relation.fields)
    for name, known in scope.sources.items():
        if known is source:
            scope.sources[name] = replace(source, relation=replace(source.relation, fields=fields))

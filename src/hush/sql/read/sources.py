"""What a query reads: tables, joins, CTEs and subqueries.

`Reader` turns a FROM clause into a typed tree (`hush.sql.syntax.relation`). It checks that each row of the result
belongs to one unit: private tables are joined on their units only, and a LEFT JOIN keeps no rows of a public table that
no unit matches. `Scope` resolves the names of columns.

| FROM | rows belong to | condition |
|---|---|---|
| private JOIN private | the unit of both | must equate the units |
| private LEFT JOIN private | the unit of the left side | must equate the units; the right side's unit may be NULL |
| private JOIN or LEFT JOIN public | the unit of the private side | any |
| public JOIN private | the unit of the private side | any |
| public LEFT JOIN private | refused | whether a row has a match depends on all units |
| a comma or CROSS JOIN | as for JOIN | WHERE may equate the units |
| RIGHT JOIN as the first join | as for LEFT JOIN with its sides swapped | |
| NATURAL JOIN | as for JOIN with USING | |
| FULL, SEMI and other joins | refused | write JOIN or LEFT JOIN |

One row of a unit may match many rows of a public table. This multiplies the unit's rows, but not its contribution,
which is bounded after the join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import shorten

from sqlglot import exp, parse_one

from hush.data.tables.catalog import ROW, Catalog, ColumnKind, PrivateTable, PublicTable, kind_of
from hush.sql.read.per_unit import per_unit_select
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.reasons import not_a_select, reason, unknown_function
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.relation import Field, Join, NamedRelation, Origin, Projection, QueryRelation, Scan, ScannedColumn

CommonTables = Mapping[str, QueryRelation]  # what WITH defines, by name in lower case
SELECT_PARTS = ("with_", "expressions", "from_", "joins", "where", "group", "having")
_JOIN_ADVICE = "Write JOIN b ON a.unit = b.unit, or join a public table"


@dataclass(slots=True)
class Scope:
    """The columns that expressions of one SELECT can refer to.

    Attributes:
        refuse: Makes the refusals.
        sources: The sources by name in lower case.
        merged: Columns of USING, which stand for both sides.
        names: The names of the sources as the query writes them.
    """

    refuse: Refuser
    sources: dict[str, NamedRelation] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)

    def add(self, node: exp.Expr, name: str, source: NamedRelation) -> None:
        """Add a source under its name."""
        if name.casefold() in self.sources:
            raise self.refuse(node, f"the name {name} is used twice", "Give each table its own alias")
        self.sources[name.casefold()] = source
        self.names.append(name)

    def resolve(self, node: exp.Column) -> Expr:
        """Return the column that a name refers to. Case is ignored, whether or not the name is quoted."""
        if isinstance(node.this, exp.Star):
            raise self.refuse(node, *reason(node.this))
        table, name = node.table.casefold(), node.name.casefold()
        if table and table not in self.sources:
            if self.has_column(table):
                raise self.refuse(
                    node, f"{node.table} is a column, and fields of a column are not supported", "Create a view of them"
                )
            raise self.refuse(node, "FROM has no table of this name", f"It has {shortened(self.names)}")
        sources = [self.sources[table]] if table else list(self.sources.values())
        matches = [match for source in sources if (match := find_column(source, name)) is not None]
        if not matches:
            columns = [entry.name for source in sources for entry in source.relation.fields]
            raise self.refuse(node, "there is no column of this name", f"The columns are {shortened(columns)}")
        if len(matches) > 1 and name not in self.merged:
            raise self.refuse(node, "more than one table has a column of this name", "Write table.column")
        if matches[0].kind is ColumnKind.OTHER:
            raise self.refuse(
                node,
                "columns of this type are not supported",
                "Use numbers, text, booleans, dates or timestamps without a time zone",
                "If the column has a time zone, create a view with (column AT TIME ZONE 'UTC')",
            )
        return matches[0]

    def all_columns(self, node: exp.Expr) -> list[tuple[str, Expr]]:
        """Return the names and columns of * or table.*, without columns of types that queries cannot use."""
        table = node.table if isinstance(node, exp.Column) else ""
        if table and table.casefold() not in self.sources:
            raise self.refuse(node, "FROM has no table of this name", f"It has {shortened(self.names)}")
        columns: dict[str, tuple[str, Expr]] = {}
        for source in [self.sources[table.casefold()]] if table else self.sources.values():
            for entry in source.relation.fields:
                name = entry.name.casefold()
                column = find_column(source, name)
                if column is None or column.kind is ColumnKind.OTHER or (name in columns and name in self.merged):
                    continue
                if name in columns:
                    raise self.refuse(node, f"two tables have a column named {entry.name}", "Name the columns")
                columns[name] = (entry.name, column)
        return list(columns.values())

    def has_column(self, name: str) -> bool:
        """Return whether any source has a column of this name."""
        return any(find_column(source, name.casefold()) is not None for source in self.sources.values())


def find_column(source: NamedRelation, name: str) -> Expr | None:
    """Return a column of a source by its name in lower case, or None."""
    for entry in source.relation.fields:
        if entry.name.casefold() == name:
            return replace(entry.prototype, op="column", args=(), value=(source.alias, entry.column))
    return None


class Reader:
    """Reads FROM clauses. Use one reader per query: it numbers the aliases of relations."""

    def __init__(self, catalog: Catalog, refuse: Refuser) -> None:
        """Take the declared tables."""
        self._tables = {name.casefold(): (name, table) for name, table in catalog.tables.items()}
        self.refuse = refuse
        self._count = 0

    def common_tables(self, select: exp.Select, outer: CommonTables) -> CommonTables:
        """Return the relations that WITH defines, together with those of the enclosing queries."""
        clause = select.args.get("with_")
        tables = dict(outer)
        if clause is None:
            return tables
        if clause.args.get("recursive"):
            raise self.refuse(clause, "recursive queries are refused: their sensitivity has no bound")
        for entry in clause.expressions:
            self.refuse.unless_only(entry, "this", "alias")
            self.refuse.unless_only(entry.args["alias"], "this")
            name = entry.alias.casefold()
            if name in tables or name in self._tables:
                raise self.refuse(entry, f"the name {entry.alias} is already taken", "Choose a name that no table has")
            tables[name] = self.select(entry.this, tables)
        return tables

    def origin(self, select: exp.Select, common: CommonTables) -> tuple[Origin, Scope]:
        """Return the FROM clause with its joins, and the scope of its columns."""
        clause = select.args.get("from_")
        if clause is None:
            raise self.refuse(select, "a query without FROM has no data", "Name a table")
        scope = Scope(self.refuse)
        first = self._source(clause.this, common, scope)
        owner = first if first.relation.private else None
        joins: list[Join] = []
        conjuncts = _conjuncts(select.args["where"].this) if select.args.get("where") is not None else []
        for node in select.args.get("joins") or ():
            join, owner = self._join(node, common, scope, owner, conjuncts)
            joins.append(join)
        return Origin(first, tuple(joins), owner), scope

    def select(self, node: exp.Expr, outer: CommonTables) -> QueryRelation:
        """Return a subquery as a relation."""
        if isinstance(node, exp.Subquery):
            self.refuse.unless_only(node, "this", "alias")
            return self.select(node.this, outer)
        if not isinstance(node, exp.Select):
            raise self.refuse(node, *not_a_select(node))
        check_clauses(self.refuse, node, *SELECT_PARTS)
        origin, scope = self.origin(node, self.common_tables(node, outer))
        row = Translator(self.refuse, scope.resolve)
        where = None if node.args.get("where") is None else row.condition(node.args["where"].this)
        self._check_no_windows(node)
        if (
            node.args.get("group")
            or node.args.get("having")
            or any(item.find(exp.AggFunc) for item in node.expressions)
        ):
            return per_unit_select(node, origin, where, row, scope.has_column, self._new_alias())
        items = tuple(column for item in node.expressions for column in self._columns(item, row, scope))
        return project(self.refuse, node, origin, where, items)

    def _new_alias(self) -> str:
        """Return an alias that no relation has."""
        self._count += 1
        return f"r{self._count}"

    def _check_no_windows(self, node: exp.Select) -> None:
        """Refuse window functions in SELECT. They would see the rows of other units."""
        for item in node.expressions:
            if (window := item.find(exp.Window)) is not None:
                raise self.refuse(window, *reason(window))

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

    def _source(self, node: exp.Expr, common: CommonTables, scope: Scope) -> NamedRelation:
        """Return a table, a CTE or a subquery of FROM, and add it to the scope."""
        if isinstance(node, exp.Subquery):
            self.refuse.unless_only(node, "this", "alias")
            if not node.alias:
                raise self.refuse(node, "a subquery needs a name", "Write (SELECT ...) AS name")
            relation = self.select(node.this, common)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if node.args.get("sample") is not None:
                raise self.refuse(node, "TABLESAMPLE is not supported: samples differ from run to run", "Leave it out")
            self.refuse.unless_only(node, "this", "alias")
            relation = self._table(node, common)
        elif isinstance(node, exp.Table):
            raise self.refuse(node, *unknown_function(node.this.name or "this function"))
        else:
            raise self.refuse(node, *reason(node))
        if node.args.get("alias") is not None:
            self.refuse.unless_only(node.args["alias"], "this")
        source = NamedRelation(self._new_alias(), relation)
        scope.add(node, node.alias_or_name, source)
        return source

    def _table(self, node: exp.Table, common: CommonTables) -> QueryRelation:
        """Return a CTE or a declared table by its name."""
        name = node.name.casefold()
        if name in common:
            return common[name]
        if name not in self._tables:
            names = [name for name, _ in self._tables.values()]
            raise self.refuse(node, "no table of this name is declared", f"The tables are {shortened(names)}")
        return self._restricted(node, *self._tables[name])

    def _restricted(self, node: exp.Table, name: str, table: PrivateTable | PublicTable) -> QueryRelation:
        """Return a table without the rows that its ``only`` excludes."""
        all_rows = scan(name, table)
        if isinstance(table, PublicTable) or table.only is None:
            return all_rows
        scope, source = Scope(self.refuse), NamedRelation(self._new_alias(), all_rows)
        scope.add(node, name, source)
        where = Translator(self.refuse, scope.resolve).condition(parse_one(table.only, dialect=""))
        names = [entry.name for entry in all_rows.fields]
        items = tuple((name, column) for name in names if (column := find_column(source, name.casefold())))
        return project(self.refuse, node, Origin(source, (), source), where, items)

    def _join(
        self,
        node: exp.Join,
        common: CommonTables,
        scope: Scope,
        owner: NamedRelation | None,
        conjuncts: list[exp.Expr],
    ) -> tuple[Join, NamedRelation | None]:
        """Return a join, and the source that owns the rows after it.

        Args:
            node: The join.
            common: The common table expressions.
            scope: The sources before it, to which its own is added.
            owner: The source that owns the rows before it.
            conjuncts: The conditions that WHERE joins with AND.
        """
        self.refuse.unless_only(node, "this", "side", "kind", "method", "on", "using")
        side, kind, method = ((node.args.get(part) or "").upper() for part in ("side", "kind", "method"))
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
            raise self.refuse(node, f"{side or method or kind} JOIN is not supported", "Write JOIN or LEFT JOIN")
        before = dict(scope.sources)
        source = self._source(node.this, common, scope)
        left, private = side == "LEFT", source.relation.private
        if left and private and owner is None:
            raise self.refuse(
                node, "whether a row of the public table has no match depends on all units", "Write JOIN instead"
            )
        condition, on_unit = self._condition(node, scope, before, source)
        if not left and not on_unit:
            on_unit = self._where_equates_units(conjuncts, scope, source)
        if private and owner is not None:
            self._check_same_unit(node, owner, source, on_unit)
            if left:  # a row without a match has NULL for the right side's unit, which then identifies nobody
                _unmark_unit(scope, source)
        return Join(source, left, private and owner is not None, condition), owner or (source if private else None)

    def _check_same_unit(self, node: exp.Join, owner: NamedRelation, source: NamedRelation, on_unit: bool) -> None:
        """Refuse a join of two private relations unless both rows of a pair belong to the same unit."""
        if owner.relation.entity != source.relation.entity:
            raise self.refuse(
                node,
                "the units of these tables are different entities, or have different types",
                "Declare both with the same entity and type",
            )
        if owner.relation.units > 1 or source.relation.units > 1:
            raise self.refuse(node, "tables whose unit is a user within a window cannot be joined")
        if not on_unit:
            raise self.refuse(node, "this join would combine rows of different units", _JOIN_ADVICE)

    def _where_equates_units(self, conjuncts: list[exp.Expr], scope: Scope, source: NamedRelation) -> bool:
        """Return whether WHERE drops all rows in which the units of a source and of an earlier one differ.

        The plan compares the units in the join itself, which for an inner join gives the same rows.
        """
        for conjunct in conjuncts:
            sides = [conjunct.this, conjunct.expression] if isinstance(conjunct, exp.EQ) else []
            if not sides or not all(isinstance(side, exp.Column) for side in sides):
                continue
            try:
                left, right = [scope.resolve(side) for side in sides]
            except QueryRefused:  # a column of a later source; if it has none, WHERE itself is refused
                continue
            if _equates_units(Expr("eq", ColumnKind.BOOL, (left, right)), source):
                return True
        return False

    def _condition(
        self, node: exp.Join, scope: Scope, before: dict[str, NamedRelation], source: NamedRelation
    ) -> tuple[Expr | None, bool]:
        """Return the join's condition, and whether it requires the units of both sides to be equal."""
        row = Translator(self.refuse, scope.resolve)
        merged = _common_names(before, source) if node.args.get("method") else node.args.get("using")
        if merged:
            parts = [self._using(name, before, source, scope) for name in merged]
        elif node.args.get("on") is not None:
            parts = (
                [row.condition(part) for part in node.args["on"].flatten()]
                if isinstance(node.args["on"], exp.And)
                else [row.condition(node.args["on"])]
            )
        else:
            return None, False
        on_unit = any(part.op == "eq" and _equates_units(part, source) for part in parts)
        condition = parts[0]
        for part in parts[1:]:
            condition = Expr("and", ColumnKind.BOOL, (condition, part))
        return condition, on_unit

    def _using(self, name: exp.Expr, before: dict[str, NamedRelation], source: NamedRelation, scope: Scope) -> Expr:
        """Return the condition of one column of USING."""
        lower = name.name.casefold()
        lefts = [match for other in before.values() if (match := find_column(other, lower)) is not None]
        right = find_column(source, lower)
        if (len(lefts) != 1 and lower not in scope.merged) or right is None:
            raise self.refuse(name, "USING takes a column that both sides have exactly once")
        if lefts[0].kind is not right.kind or right.kind is ColumnKind.OTHER:
            raise self.refuse(name, "the two columns are of different kinds", "Use ON with CAST")
        scope.merged.add(lower)
        return Expr("eq", ColumnKind.BOOL, (lefts[0], right))


def scan(name: str, table: PrivateTable | PublicTable) -> QueryRelation:
    """Return a base table as a relation. Text columns with bounds are read as numbers, as in CSV files."""
    private = table if isinstance(table, PrivateTable) else None
    bounds = private.bounds if private else {}
    fields, columns = [], []
    for index, (raw, declared) in enumerate(table.columns.items()):
        kind = kind_of(declared)
        kind = ColumnKind.FLOAT if raw in bounds and kind is ColumnKind.TEXT else kind
        low, high = bounds.get(raw, (float("-inf"), float("inf")))
        keys = private.keys.get(raw) if private else None
        domain = None if keys is None else tuple(keys)
        prototype = Expr("column", kind, (), None, low, high, kind is ColumnKind.INT, domain)
        if private:
            prototype = replace(prototype, unit=raw == private.unit, required=raw in private.required)
        columns.append(ScannedColumn(f"c{index}", raw, declared, kind))
        fields.append(Field(raw, f"c{index}", prototype))
    if private is None:
        return QueryRelation(Scan(name, tuple(columns), None, None, None), tuple(fields))
    if private.row_id is not None:  # no field shows this unit, so a query can neither join on it nor group by it
        raw, declared = private.row_id
        row = ScannedColumn("", raw, declared, kind_of(declared))
        return QueryRelation(Scan(name, tuple(columns), row, None, None), tuple(fields), 1, ROW)
    by_name = {column.raw: column for column in columns}
    time = by_name[private.time] if private.time else None
    body = Scan(name, tuple(columns), by_name[private.unit], time, private.window)
    # Comparing an integer with text, an engine would cast the text, and could raise.
    written_as = "integer" if by_name[private.unit].kind is ColumnKind.INT else "text"
    return QueryRelation(body, tuple(fields), 1 if time is None else 2, f"{private.entity}, written as {written_as}")


def project(
    refuse: Refuser, node: exp.Expr, origin: Origin, where: Expr | None, items: tuple[tuple[str, Expr], ...]
) -> QueryRelation:
    """Return the rows of an origin that meet a condition, with the columns ``items``, as a relation."""
    fields: list[Field] = []
    for index, (name, item) in enumerate(items):
        if any(entry.name.casefold() == name.casefold() for entry in fields):
            raise refuse(node, f"two columns are named {name}", "Rename one of them with AS")
        fields.append(Field(name, f"c{index}", replace(item, op="column", args=(), value=None)))
    named = tuple((f"c{index}", item) for index, (_, item) in enumerate(items))
    owner = origin.owner
    units, entity = (owner.relation.units, owner.relation.entity) if owner else (0, "")
    return QueryRelation(Projection(origin, where, named), tuple(fields), units, entity)


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


def shortened(names: Sequence[str]) -> str:
    """Return names of tables or columns, which are public, for a message."""
    return shorten(", ".join(names), 300, placeholder=" ...")


def _common_names(before: Mapping[str, NamedRelation], source: NamedRelation) -> list[exp.Expr]:
    """Return the columns of a NATURAL JOIN: those of the source that an earlier one has as well."""
    names = [entry.name for entry in source.relation.fields]
    return [
        exp.to_identifier(name)
        for name in names
        if any(find_column(other, name.casefold()) is not None for other in before.values())
    ]


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that AND joins at the top of a condition."""
    inner = condition.unnest()
    if not isinstance(inner, exp.And):
        return [inner]
    return [part for side in (inner.this, inner.expression) for part in _conjuncts(side)]


def _equates_units(equality: Expr, source: NamedRelation) -> bool:
    """Return whether an equality compares the unit of a source with the unit of another one."""
    left, right = equality.args
    if not (left.unit and right.unit and left.op == right.op == "column"):
        return False
    return bool((left.value[0] == source.alias) != (right.value[0] == source.alias))


def _unmark_unit(scope: Scope, source: NamedRelation) -> None:
    """Let no column of a source count as the unit any more."""
    fields = tuple(replace(entry, prototype=replace(entry.prototype, unit=False)) for entry in source.relation.fields)
    for name, known in scope.sources.items():
        if known is source:
            scope.sources[name] = replace(source, relation=replace(source.relation, fields=fields))

"""Released subqueries: a query in stages, each of which is private for whatever the stages before it released.

| subquery | released as |
|---|---|
| (SELECT AVG(x) FROM private ...) in WHERE, SELECT, HAVING, QUALIFY or ORDER BY | one value |
| (SELECT AVG(x) FROM private WHERE private.k = outer.k) in WHERE | a value for each k, looked up by outer.k |
| (SELECT k, SUM(x) FROM private GROUP BY k) in FROM, WITH, IN or EXISTS | a table of groups |

An aggregate of rows of the unit that a condition is about is no release: it is part of the unit's contribution, and
stays in its stage. A CTE is released once, however often the query names it. What is released becomes a public table of
the stages after it; groups that partition selection leaves out are missing there. If the last stage reads nothing but
public and released tables, it costs nothing, and its rows are the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from textwrap import shorten

from sqlglot import exp

from hush.data.tables.catalog import Catalog, ColumnKind
from hush.sql.read.parsed_query import ParsedQuery, parse_query
from hush.sql.read.query import plan_query
from hush.sql.read.relations.nested import VALUE, value_of
from hush.sql.read.relations.reader import Reader
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.relation import Field, QueryRelation, ReleasedRows

_MOST_STAGES = 20
_AFTER_GROUPING = ("expressions", "having", "qualify", "order")  # what is computed from released values


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A subquery to release.

    Attributes:
        name: The name of the table that it becomes.
        query: The subquery, as a query of its own.
        text: Its text, shortened.
    """

    name: str
    query: ParsedQuery
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """A query in stages.

    Attributes:
        released: The subqueries to release, in order.
        last: What is asked with their released values.
        is_public: Whether the last stage reads public and released tables only.
    """

    released: tuple[Stage, ...]
    last: ParsedQuery
    is_public: bool = False

    @property
    def private(self) -> list[ParsedQuery]:
        """The stages that read private tables, in order."""
        return [*(stage.query for stage in self.released), *([] if self.is_public else [self.last])]


def read_stages(text: str, *, tables: Catalog, dialect: str = "duckdb") -> Stages:
    """Return the stages of a query. No data are read.

    Args:
        text: One SELECT.
        tables: The declared tables.
        dialect: The dialect that the text is written in.

    >>> from hush.data.tables.catalog import PrivateTable
    >>> people = PrivateTable(columns={"who": "BIGINT", "age": "INTEGER"}, unit="who", bounds={"age": (0, 120)})
    >>> text = "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)"
    >>> [stage.text for stage in read_stages(text, tables=Catalog({"people": people})).released]
    ['SELECT AVG(age) FROM people']
    """
    query = parse_query(text, dialect)
    if all(node is query.select for node in query.select.find_all(exp.Query)):
        return Stages((), query)
    return _Stager(query, tables, dialect).stages()


@dataclass(slots=True)
class _Stager:
    """Takes the subqueries to release out of a query, in place."""

    query: ParsedQuery
    tables: Catalog
    dialect: str
    found: list[Stage] = field(default_factory=list)
    relations: dict[str, QueryRelation] = field(default_factory=dict)

    @property
    def refuse(self) -> Refuser:
        """What makes the refusals."""
        return self.query.refuse

    def stages(self) -> Stages:
        """Return the stages."""
        select = self.query.select
        _name_columns(select)
        try:
            is_public = self._take_out(select)
        except RecursionError:
            raise QueryRefused(1, 1, "the query is nested too deeply", "Split it with WITH") from None
        last = replace(self.query, released=dict(self.relations))
        return Stages(tuple(self.found), last, is_public and bool(self.found))

    def release(self, select: exp.Select, at: exp.Expr) -> QueryRelation:
        """Return the relation of a subquery that is released: all columns of its answer.

        Args:
            select: The subquery.
            at: Where it stands in the query, which decides what WITH defines for it.
        """
        text = shorten(at.sql(self.dialect), 160, placeholder=" ...")
        entries = [entry.copy() for entry in _entries_before(at)]
        clause = select.args.get("with_")
        entries += [] if clause is None else clause.expressions
        if entries:
            select.set("with_", exp.With(expressions=entries))
        self._take_out(select)
        if len(self.found) == _MOST_STAGES:
            raise self.refuse(at, f"a query has at most {_MOST_STAGES} released subqueries", "Ask them as queries")
        query = ParsedQuery(select, self.refuse, dict(self.relations))
        name = f"hush_released{len(self.found)}"
        self.relations[name] = self._relation(name, query, at)
        self.found.append(Stage(name, query, text))
        return self.relations[name]

    def _take_out(self, select: exp.Select) -> bool:
        """Release the subqueries of a SELECT, in place. Return whether all that it then reads is public."""
        reader = Reader(self.tables, self.refuse, self.relations, self.release)
        common = reader.common_tables(select, {})
        origin, scope = reader.origin(select, common)
        reader.where(select, scope, common)
        for node in list(_values_after_grouping(select)):
            if isinstance(node.this, exp.Select) and len(node.this.expressions) == 1:
                inner, _ = reader.origin(node.this, reader.common_tables(node.this, common))
                if inner.owner is not None:
                    self._release_value(node, node.this)
        return origin.owner is None

    def _release_value(self, node: exp.Subquery, select: exp.Select) -> None:
        """Release a subquery with one value, and put the value in its place."""
        if select.args.get("group") is not None:
            why = "a subquery in an expression must have one row: an aggregate without GROUP BY"
            raise self.refuse(node, why, "Put it into FROM")
        stage = select.copy()
        stage.set("expressions", [exp.alias_(stage.expressions[0].unalias(), VALUE)])
        node.set("this", value_of(self.release(stage, select).name))

    def _relation(self, name: str, query: ParsedQuery, at: exp.Expr) -> QueryRelation:
        """Return a released relation without rows. Its columns are those of the subquery's answer."""
        plan, fields = plan_query(query, tables=self.tables, dialect=self.dialect), []
        for index, output in enumerate(plan.outputs):
            expression = output.expression
            if expression.kind in (ColumnKind.OTHER, ColumnKind.NULL):
                raise self.refuse(at, f"{output.name} of a released subquery is no single value", "Leave it out")
            is_count = expression.op == "statistic" and plan.statistics[expression.value].kind == "count"
            column = Expr(
                "column",
                ColumnKind.INT if is_count else expression.kind,
                low=expression.low,
                high=expression.high,
                integral=is_count or expression.integral,
            )
            fields.append(Field(output.name, f"c{index}", column))
        kinds = tuple(entry.prototype.kind for entry in fields)
        return QueryRelation(ReleasedRows(kinds), tuple(fields), name=name)


def _name_columns(select: exp.Select) -> None:
    """Name the columns of an answer by their text, before a released subquery in them is taken out."""
    for item in list(select.expressions):
        if not isinstance(item, (exp.Alias, exp.Column)) and item.find(exp.Query) is not None:
            item.replace(exp.alias_(item.copy(), item.sql("duckdb", comments=False), quoted=True))


def _values_after_grouping(select: exp.Select) -> Iterator[exp.Subquery]:
    """Yield the subqueries in what is computed from released values. Those within them belong to them."""
    pending: list[exp.Expr] = []
    for clause in _AFTER_GROUPING:
        part = select.args.get(clause)
        pending += part if isinstance(part, list) else [] if part is None else [part]
    while pending:
        node = pending.pop(0)
        if isinstance(node, exp.Subquery):
            yield node
        elif not isinstance(node, exp.Query):
            pending += node.iter_expressions()


def _entries_before(node: exp.Expr) -> list[exp.Expr]:
    """Return the entries of WITH that a node of a query can name, in order."""
    entries: list[exp.Expr] = []
    while node.parent is not None:
        parent = node.parent
        if isinstance(parent, exp.With):
            siblings = parent.expressions
            position = next(index for index, entry in enumerate(siblings) if entry is node)
            entries, node = [*siblings[:position], *entries], parent.parent or parent
            continue
        clause = parent.args.get("with_")
        entries, node = [*(clause.expressions if clause is not None else ()), *entries], parent
    return entries
